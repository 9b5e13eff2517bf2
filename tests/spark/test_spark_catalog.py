"""The session's own catalog: Hive's, with its embedded metastore, in a Spark application of this module's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hive import HiveSpark

from rivet_dagster.catalogs.spark import SparkCatalog
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.testing.catalog import CatalogConformance


@pytest.fixture(scope="module")
def hive(engine, tmp_path_factory) -> Iterator[HiveSpark]:
    """Spark with Hive's catalog, in place of the one Spark of all tests, which starts again afterwards."""
    with HiveSpark.in_place_of(engine, tmp_path_factory.mktemp("hive")) as spark:
        yield spark


@pytest.fixture
def session(hive) -> Iterator[PySparkSession]:
    with hive.session() as session:
        yield session


class TestHive(CatalogConformance):
    """A database for each test, in the test's own folder."""

    @pytest.fixture(autouse=True)
    def spark(self, hive):
        self.hive = hive

    def new_catalog(self, folder: Path) -> SparkCatalog:
        return self.hive.catalog(folder)
