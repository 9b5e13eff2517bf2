"""Iceberg in the one Spark of a test process, and catalogs of it that need no cloud."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rivet_dagster.catalogs.iceberg.settings.connection import EXTENSIONS, packages, spark_needs
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.jars import has_runtime
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.engines.pyspark.spark_home import spark_version
from rivet_dagster.model.profile import EngineSpec
from support.iceberg_rest import IcebergRest
from support.maven import are_there, jar, jars
from support.nessie import Nessie
from support.postgres import Postgres
from support.spark import MASTER

POSTGRES_DRIVER = "org.postgresql:postgresql:42.7.14"
MARIADB_DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"

KINDS = ("hadoop", "rest", "postgres", "sqlite", "nessie")
"""The kinds of catalog that ``declared`` makes."""

PACKAGES = tuple(
    dict.fromkeys(
        package
        for uri in ("jdbc:postgresql:x", "jdbc:sqlite:x")
        for package in packages({"catalog": "jdbc", "uri": uri, "warehouse": "s3://x"}, spark_version())
    )
)
"""Iceberg's runtime, its libraries of AWS, and the drivers of both databases."""


def declared(
    kind: str,
    folder: Path,
    rest: IcebergRest | None = None,
    postgres: Postgres | None = None,
    nessie: Nessie | None = None,
) -> dict[str, Any]:
    """Return the options of a catalog without tables, whose files are in ``folder``."""
    folder.mkdir(parents=True)
    warehouse = {"warehouse": str(folder / "warehouse")}
    if kind == "hadoop":
        return {"catalog": "hadoop", **warehouse}
    if kind == "sqlite":
        return {"catalog": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", **warehouse}
    if kind == "rest":
        assert rest is not None
        return {"catalog": "rest", "uri": rest.catalog(folder)}
    if kind == "nessie":
        assert nessie is not None
        return nessie.catalog(folder)
    assert postgres is not None
    database = postgres.database()
    login = {"jdbc.user": database.user, "jdbc.password": database.password}
    return {"catalog": "jdbc", "uri": database.jdbc, **login, **warehouse}


def session_with(catalogs: Mapping[str, Mapping[str, Any]], root: Path) -> PySparkSession:
    """Begin a session of the one Spark that has these Iceberg catalogs, by their names."""
    needs = [spark_needs(name, options, root) for name, options in catalogs.items()]
    return PySparkEngine(EngineSpec("spark", "pyspark", options={"master": MASTER}), needs=needs).session()


def need_iceberg() -> None:
    """Skip the test on a Spark that Iceberg has no runtime for, and where the jars cannot be had; in CI these fail."""
    if not has_runtime(spark_version()):
        pytest.skip(f"Iceberg has no runtime for Spark {spark_version()}")
    jars(*PACKAGES)


def jars_of_spark() -> tuple[str, ...]:
    """Return the jars that the Spark of the tests has: Iceberg's, if there is one for it, and drivers of databases."""
    return (*(PACKAGES if has_runtime(spark_version()) else (POSTGRES_DRIVER,)), MARIADB_DRIVER)


def jar_settings() -> dict[str, str]:
    """Return the settings with which Spark has these jars, as far as they can be had."""
    *packages, driver = jars_of_spark()
    if not are_there(packages):
        return {}
    extensions = {"spark.sql.extensions": EXTENSIONS} if has_runtime(spark_version()) else {}
    if are_there((driver,)):
        packages.append(driver)
    return {"spark.jars": ",".join(str(jar(package)) for package in packages), **extensions}
