"""Stores of objects: their kinds, the URIs of folders and files in them, how pyarrow and Spark reach one, and
the problems of the options of a catalog in one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path, PurePath, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.paths import is_remote, scheme
from rivet_dagster.secrets.redaction import redacted

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "s3a": ("endpoint", "access_key", "secret_key", "region"),
    "gs": (),
    "abfss": ("access_key",),
    "hdfs": (),
}
"""By scheme, as Spark spells it, the keys that the ``options`` of a catalog in such a store may have."""

_SPELLINGS = {"s3": "s3a"}
_EXAMPLES = {
    "s3a": "s3a://bucket/folder",
    "gs": "gs://bucket/folder",
    "abfss": "abfss://container@account.dfs.core.windows.net/folder",
    "hdfs": "hdfs://namenode:8020/folder",
}


@dataclass(frozen=True)
class StoreUri:
    """A path in a store. ``authority`` is the bucket, ``container@host`` or the host; ``path`` begins at its root."""

    scheme: str
    authority: str
    path: PurePosixPath

    @classmethod
    def of(cls, uri: str) -> StoreUri:
        """Return the parts of a URI. Raises ValueError, with the end of a sentence about it.

        >>> str(StoreUri.of("s3://lake/raw/")), str(StoreUri.of("s3a://lake"))
        ('s3a://lake/raw', 's3a://lake/')
        """
        written = scheme(uri) or ""
        kind = _SPELLINGS.get(written, written)
        if kind not in OPTIONS:
            known = (*_EXAMPLES, *_SPELLINGS)
            raise ValueError(f"is in a kind of store that is not known, {written}://{nearest(written, known)}")
        rest = uri[len(written) + 1 :]
        authority, _, path = rest.removeprefix("//").partition("/")
        is_named = "@" in authority if kind == "abfss" else kind == "hdfs" or "@" not in authority
        if not rest.startswith("//") or not is_named or not (authority or kind == "hdfs"):
            secrets = " (keys stand in `options`)" if kind == "s3a" and "@" in authority else ""
            raise ValueError(f"must be a URI like {_EXAMPLES[kind]}{secrets}, not {redacted(uri)}")
        return cls(kind, authority, PurePosixPath(f"/{path}"))

    @property
    def root(self) -> str:
        """The URI of the store's root, without a slash at its end."""
        return f"{self.scheme}://{self.authority}"

    @property
    def bucket(self) -> str:
        """The bucket or container.

        >>> StoreUri.of("abfss://raw@account.dfs.core.windows.net/x").bucket
        'raw'
        """
        return self.authority.partition("@")[0]

    def __str__(self) -> str:
        return f"{self.root}{self.path}"


def elsewhere(path: str, table: str) -> str | None:
    """Return what is wrong with a ``table`` that is not where the catalog's ``path`` is; None if it is.

    >>> elsewhere("s3://lake/raw", "orders/*.csv"), elsewhere("s3://lake/raw", "s3a://lake/orders")
    (None, None)
    >>> elsewhere("s3://lake/raw", "s3://sea/orders"), elsewhere("data", "s3://sea/orders")
    ("the table is not in the catalog's store, s3a://lake", 'the table is in a store, and the catalog is not')
    """
    if "${" in path:
        return None
    if not is_remote(path):
        return "the table is in a store, and the catalog is not" if is_remote(table) else None
    try:
        home = StoreUri.of(path).root
    except ValueError:
        return None  # reported as an error of the catalog
    try:
        same = scheme(table) is None or StoreUri.of(table).root == home
    except ValueError:
        same = False
    return None if same else f"the table is not in the catalog's store, {redacted(home)}"


CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""The seconds for which a client waits for a connection, or the next byte of an answer, in each of its attempts."""

ATTEMPTS = 3


class Store:
    """The store of ``uri``, with expanded ``options``; the first use of ``client`` makes it, which contacts nothing."""

    def __init__(self, uri: StoreUri, options: Mapping[str, str]) -> None:
        self.uri = uri
        self.options = options

    @cached_property
    def client(self) -> Any:
        """The file system of pyarrow. Raises OSError if a library that it needs is missing."""
        return _CLIENTS[self.uri.scheme](self.uri, self.options)

    def key(self, path: PurePath) -> str:
        """Return a path from the store's root as the client takes it."""
        return str(path) if self.uri.scheme == "hdfs" else f"{self.uri.bucket}{path}".rstrip("/")


def _s3(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    endpoint = urlsplit(options["endpoint"]) if "endpoint" in options else None
    return S3FileSystem(
        access_key=options.get("access_key"),
        secret_key=options.get("secret_key"),
        region=options.get("region"),
        scheme=endpoint.scheme if endpoint else None,
        endpoint_override=endpoint.netloc if endpoint else None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=ANSWER_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _gs(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import GcsFileSystem

    return GcsFileSystem(retry_time_limit=timedelta(seconds=ATTEMPTS * ANSWER_SECONDS))


def _abfss(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import AzureFileSystem

    account = uri.authority.partition("@")[2].partition(".")[0]
    return AzureFileSystem(account, account_key=options.get("access_key"))


def _hdfs(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import HadoopFileSystem

    return HadoopFileSystem.from_uri(uri.root if uri.authority else "hdfs://default:0")


_CLIENTS = {"s3a": _s3, "gs": _gs, "abfss": _abfss, "hdfs": _hdfs}


def wrong_store(path: str, options: Any) -> dict[str, str]:
    """Return what is wrong with a catalog's ``path`` and ``options``, by key; values with ``${`` are not judged.

    >>> wrong_store("s3a://lake/raw", {"endpont": "http://minio:9000"})
    {'options': "has the unknown key 'endpont'; did you mean 'endpoint'?"}
    >>> wrong_store("data", {"region": "eu-central-1"})
    {'options': 'is for a `path` in a store like s3a://bucket/folder'}
    """
    if not isinstance(options, Mapping):
        return {"options": f"must be a mapping of {', '.join(OPTIONS['s3a'])}"}
    try:
        uri = StoreUri.of(path) if is_remote(path) else None
    except ValueError as error:
        return {"path": str(error)}
    if uri is None and not is_unexpanded(path):
        return {"options": "is for a `path` in a store like s3a://bucket/folder"} if options else {}
    known = OPTIONS[uri.scheme] if uri is not None else {key for keys in OPTIONS.values() for key in keys}
    wrong = "; ".join(_wrong(options, sorted(known)))
    return {"options": wrong} if wrong else {}


def _wrong(options: Mapping[Any, Any], known: list[str]) -> Iterator[str]:
    for key, value in options.items():
        if key not in known:
            yield f"has the unknown key {show(key)}{nearest(str(key), known) or '; such a store has none'}"
        elif not isinstance(value, str) or not value:
            yield f"needs a text for `{key}`, not {show(value) if key in ('endpoint', 'region') else 'this'}"
        elif key == "endpoint" and not is_unexpanded(value) and not _is_url(value):
            yield "needs a URL like https://minio.example:9000 for `endpoint`"
    if "secret_key" in known and ("access_key" in options) != ("secret_key" in options):
        yield "needs both `access_key` and `secret_key`, or neither"


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return bool(
            url.scheme in ("http", "https")
            and url.hostname
            and url.port != 0
            and "@" not in url.netloc
            and url.path in ("", "/")
            and not (url.query or url.fragment)
        )
    except ValueError:
        return False


_CONNECTORS = {"s3a": "hadoop-aws", "abfss": "hadoop-azure"}
"""The modules of Hadoop, by scheme, that Spark comes without; that of ``gs`` is not a part of Hadoop."""

_API = re.compile(r"hadoop-client-api-(.+)\.jar")
_KEYS_GIVEN = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


def spark_needs(uri: StoreUri, options: Mapping[str, str]) -> SessionNeeds:
    """Return the connector in the version of Spark's own Hadoop, and settings that hold for this bucket alone.

    >>> needs = spark_needs(StoreUri.of("s3a://lake/raw"), {"region": "eu-central-1"})
    >>> needs.config
    {'spark.hadoop.fs.s3a.bucket.lake.endpoint.region': 'eu-central-1'}
    >>> needs.packages
    ('org.apache.hadoop:hadoop-aws:3...',)
    """
    connector = _CONNECTORS.get(uri.scheme)
    jars = _jars_of_spark()
    versions = [match[1] for jar in jars if (match := _API.fullmatch(jar))]
    # Without a version Spark runs elsewhere, or with a Hadoop of its own, and so with that one's connectors.
    is_needed = connector is not None and versions and not any(jar.startswith(f"{connector}-") for jar in jars)
    packages = (f"org.apache.hadoop:{connector}:{versions[0]}",) if is_needed else ()
    config = (
        _s3a_settings(uri, options)
        if uri.scheme == "s3a"
        else _abfss_settings(uri, options)
        if uri.scheme == "abfss"
        else {}
    )
    return SessionNeeds(packages, config=config)


def _s3a_settings(uri: StoreUri, options: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    if "endpoint" in options:
        # Only Amazon has a host name for each bucket.
        settings |= {"endpoint": options["endpoint"].rstrip("/"), "path.style.access": "true"}
    if "region" in options:
        settings["endpoint.region"] = options["region"]
    if "access_key" in options:
        settings |= {"access.key": options["access_key"], "secret.key": options["secret_key"]}
        settings["aws.credentials.provider"] = _KEYS_GIVEN
    return {f"spark.hadoop.fs.s3a.bucket.{uri.bucket}.{key}": value for key, value in settings.items()}


def _abfss_settings(uri: StoreUri, options: Mapping[str, str]) -> dict[str, str]:
    host = uri.authority.partition("@")[2]
    return {f"spark.hadoop.fs.azure.account.key.{host}": options["access_key"]} if "access_key" in options else {}


def _jars_of_spark() -> list[str]:
    """Return the names of the jars that Spark is started with, without starting or importing it."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        spec = find_spec("pyspark")
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        home = places[0] if places else None
    jars = Path(home) / "jars" if home is not None else None
    return sorted(os.listdir(jars)) if jars is not None and jars.is_dir() else []
