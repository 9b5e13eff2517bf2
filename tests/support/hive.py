"""Spark with Hive's catalog and an embedded metastore, for the tests of one module."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.spark import SparkCatalog, adoption
from rivet_dagster.catalogs.spark.metastore import Metastore
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import ReplaceAll
from rivet_dagster.testing.tables import TABLE
from support.iceberg import jar_settings  # what starts the JVM first decides what it has
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
        declared = {"master": MASTER, "config": settings(place) | jar_settings() | dict(needs.config) | java(place)}
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
        """A catalog whose tables are in a database of ``folder``, which is made with its first look."""
        database = database_of(folder)
        catalog = SparkCatalog(CatalogSpec("hive", "spark", {"database": database}), folder)
        catalog.attach(lambda: self.with_database(folder))
        return catalog

    def with_database(self, folder: Path) -> PySparkSession:
        """Return the one session, after the database of ``folder`` was made, if there was none."""
        database = database_of(folder)
        create = f"CREATE DATABASE IF NOT EXISTS {database} LOCATION '{folder}/a b%20c/{database}'"
        self.one_session.spark.sql(create)
        return self.one_session


def database_of(folder: Path) -> str:
    """Return the database whose tables are in ``folder``."""
    return f"db_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


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


def publish(catalog: SparkCatalog, session: PySparkSession, sql: str, identity: str) -> Published:
    """Publish the rows of a query as the table ``orders``."""
    with catalog.begin(TABLE, session) as transaction:
        transaction.write(ReplaceAll(), session.query(sql))
        return transaction.commit(identity)


def publish_in_a_killed_process(hive: HiveSpark, folder: Path, sql: str, moment: str, step: str = "switch") -> None:
    """Publish from another process that uses the same Spark, and is killed ``before`` or ``after`` a ``step`` of it."""
    _in_a_killed_process(hive, f"die_publishing(*{(str(folder), sql, moment, step)!r})")


def adopt_in_a_killed_process(hive: HiveSpark, folder: Path, step: str, moment: str, call: str = "adopt") -> None:
    """Take over the table ``orders`` in another process, which is killed ``before`` or ``after`` a ``step`` of it.

    Or give it up, by the ``call`` of that name.
    """
    _in_a_killed_process(hive, f"die_adopting(*{(str(folder), step, moment, call)!r})")


def _in_a_killed_process(hive: HiveSpark, call: str) -> None:
    gateway = hive.one_session.spark.sparkContext._gateway.gateway_parameters
    environ = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    code = f"from support import hive; hive.{call}"
    paths = os.pathsep.join(map(str, Path(__file__).parents[1:3]))
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ, "PYTHONPATH": paths}, timeout=300, check=False
    )
    assert ended.returncode == -signal.SIGKILL


def die_publishing(folder: str, sql: str, moment: str, step: str) -> None:
    """Publish as the run ``killed`` to the catalog of a folder, and die."""
    hive = _hive_of_parent(folder)
    _die_around(Metastore if hasattr(Metastore, step) else lifecycle, step, moment)
    with hive.session() as session:
        publish(hive.catalog(Path(folder)), session, sql, "killed")


def die_adopting(folder: str, step: str, moment: str, call: str) -> None:
    """Take over the table ``orders`` of the catalog of a folder, or give it up, and die."""
    catalog = _hive_of_parent(folder).catalog(Path(folder))
    _die_around(Metastore if hasattr(Metastore, step) else adoption, step, moment)
    getattr(catalog, call)(TABLE)


def _die_around(of: Any, name: str, moment: str) -> None:
    step = getattr(of, name)

    def killed(*arguments: Any, **options: Any) -> None:
        if moment == "after":
            step(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(of, name, killed)


def _hive_of_parent(folder: str) -> HiveSpark:
    """Return the Spark of the process that started this one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    SparkContext._ensure_initialized(gateway=gateway)
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    spark = SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())))
    return HiveSpark(PySparkEngine(EngineSpec("spark", "pyspark"), connect=lambda: spark), Path(folder))
