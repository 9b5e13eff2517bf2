"""The settings and packages with which a session of Spark reads files of a store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from rivet_dagster.catalogs.filesystem.stores.store_uri import StoreUri
from rivet_dagster.model.session_needs import SessionNeeds

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
