"""The settings and packages with which a Spark session reaches an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.iceberg.settings.options import (
    HIVE,
    JDBC,
    NESSIE,
    OWN_OPTIONS,
    SQLITE,
    is_on_s3,
    uri,
    warehouse,
)
from rivet_dagster.engines.pyspark.jars import GROUP, iceberg_version, runtime_package
from rivet_dagster.engines.pyspark.spark_home import spark_version
from rivet_dagster.model import convert
from rivet_dagster.model.session_needs import SessionNeeds

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_DRIVERS = {"jdbc:postgresql:": "org.postgresql:postgresql:42.7.14", SQLITE: "org.xerial:sqlite-jdbc:3.54.1.0"}


def spark_needs(name: str, options: Mapping[str, Any], root: Path) -> SessionNeeds:
    """Return the settings and packages of the catalog ``name``, its paths relative to ``root``; ``options`` are valid.

    >>> needs = spark_needs("lake", {"catalog": "hadoop", "warehouse": "lake", "clients": 4}, Path("/project"))
    >>> for setting in needs.config.items():
    ...     print(*setting)
    spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog
    spark.sql.catalog.lake.cache-enabled false
    spark.sql.catalog.lake.clients 4
    spark.sql.catalog.lake.type hadoop
    spark.sql.catalog.lake.warehouse file:///project/lake
    spark.sql.extensions org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
    """
    catalog = f"spark.sql.catalog.{name}"
    settings = {f"{catalog}.{key}": value for key, value in sorted(_settings(options, root).items())}
    config = {catalog: "org.apache.iceberg.spark.SparkCatalog", **settings, "spark.sql.extensions": EXTENSIONS}
    return SessionNeeds(packages(options, spark_version()), config=config)


def packages(options: Mapping[str, Any], spark: str | None) -> tuple[str, ...]:
    """Return the Maven coordinates of what a catalog needs on a version of Spark.

    >>> packages({"catalog": "glue", "warehouse": "s3://lake"}, "4.0.1")
    ('org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0', 'org.apache.iceberg:iceberg-aws-bundle:1.11.0')
    """
    aws = (f"{GROUP}:iceberg-aws-bundle:{iceberg_version(spark)}",) if is_on_s3(options) else ()
    address = options.get("uri", "")
    drivers = tuple(driver for prefix, driver in _DRIVERS.items() if address.startswith(prefix))
    return (runtime_package(spark), *aws, *drivers)


def _settings(options: Mapping[str, Any], root: Path) -> dict[str, str]:
    # Other processes commit, too: a cached table would hide their snapshots.
    settings = {"cache-enabled": "false"}
    if options["catalog"] in (JDBC, HIVE, NESSIE) and str(options.get("warehouse")).startswith("s3://"):
        settings["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"  # Hadoop's own, the default, knows no s3://
    settings |= {key: convert.setting(value) for key, value in options.items() if key not in OWN_OPTIONS}
    places = {"warehouse": warehouse(options, root), "uri": uri(options, root)}
    return settings | {"type": options["catalog"]} | {key: place for key, place in places.items() if place is not None}
