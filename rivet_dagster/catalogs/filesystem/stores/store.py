"""Stores of objects: their kinds, the URIs of folders and files in them, and how pyarrow reaches one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import PurePath, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from rivet_dagster.errors import nearest
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
