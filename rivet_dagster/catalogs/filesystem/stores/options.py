"""The ``path`` and the ``options`` of a catalog in a store: their problems, and what Spark needs by them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rivet_dagster.catalogs.filesystem.stores.store import OPTIONS, StoreUri
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.paths import is_remote


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
    config = _s3a(uri, options) if uri.scheme == "s3a" else _abfss(uri, options) if uri.scheme == "abfss" else {}
    return SessionNeeds(packages, config=config)


def _s3a(uri: StoreUri, options: Mapping[str, str]) -> dict[str, str]:
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


def _abfss(uri: StoreUri, options: Mapping[str, str]) -> dict[str, str]:
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
