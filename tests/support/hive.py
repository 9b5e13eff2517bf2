"""Spark with Hive's catalog and an embedded metastore, for the tests of one module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rivet_dagster.catalogs.spark import SparkCatalog
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from support.joint_by_joint import QUICK
from support.spark import MASTER, settings


@dataclass
class HiveSpark:
    """An engine whose Spark has Hive's catalog, and the place of its metastore and warehouse."""

    engine: PySparkEngine
    place: Path

    @classmethod
    @contextmanager
    def in_place_of(cls, shared: PySparkEngine, place: Path) -> Iterator[HiveSpark]:
        """Run it in this process instead of the ``shared`` Spark, which is started again if it ran."""
        ran = stopped()
        options = {"metastore": str(place / "metastore"), "warehouse": str(place / "warehouse")}
        needs = SparkCatalog(CatalogSpec("hive", "spark", options), place).session_needs("pyspark")
        declared = {"master": MASTER, "config": settings(place) | dict(needs.config) | java(place)}
        try:
            yield cls(PySparkEngine(EngineSpec("spark", "pyspark", options=declared)), place)
        finally:
            stopped()
            if ran:
                shared.session().close()

    @cached_property
    def one_session(self) -> PySparkSession:
        """The session by which the catalogs look up tables: each would take some time to begin."""
        return self.engine.session()

    @contextmanager
    def session(self) -> Iterator[PySparkSession]:
        """A session for queries over a few rows."""
        with self.engine.session() as session:
            for name, value in QUICK.items():
                session.spark.conf.set(name, value)
            yield session

    def catalog(self, folder: Path) -> SparkCatalog:
        """A catalog whose tables are in a database of ``folder``, which is made if there is none."""
        database = f"db_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
        location = f"{folder}/a b%20c/{database}"
        self.one_session.spark.sql(f"CREATE DATABASE IF NOT EXISTS {database} LOCATION '{location}'")
        catalog = SparkCatalog(CatalogSpec("hive", "spark", {"database": database}), folder)
        catalog.attach(lambda: self.one_session)
        return catalog


def stopped() -> bool:
    """Stop the Spark of this process; return whether one ran."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return False
    SparkSession(context).stop()
    return True


def java(place: Path) -> dict[str, str]:
    """The options of a JVM that this module may be the first to start."""
    return {"spark.driver.extraJavaOptions": settings(place)["spark.driver.extraJavaOptions"]}
