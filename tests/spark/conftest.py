"""Fixtures: a session, and catalogs to read from and publish to, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.joint_by_joint import QUICK

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import CatalogSpec


@pytest.fixture
def session(engine: PySparkEngine) -> Iterator[PySparkSession]:
    """Yield a session for each test."""
    session = engine.session()
    yield session
    session.close()


@pytest.fixture
def quick_session(session: PySparkSession) -> PySparkSession:
    """The same, in which a query over a few rows takes less time than it would over many."""
    for name, value in QUICK.items():
        session.spark.conf.set(name, value)
    return session


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    """Return a catalog in the test's own folder."""
    return FilesystemCatalog(CatalogSpec("warehouse", "filesystem", {"path": "warehouse"}), tmp_path)


@pytest.fixture
def raw(tmp_path: Path) -> FilesystemCatalog:
    """Return a catalog on the files in the test's own folder."""
    return FilesystemCatalog(CatalogSpec("raw", "filesystem", {"path": "."}), tmp_path)
