"""The conformance suite for catalogs on Iceberg: whole on folders, in part where a server keeps the metadata."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.iceberg import declared
from support.joint_by_joint import QUICK

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance


class IcebergConformance(CatalogConformance):
    """The suite with a session that reaches the catalog of the test."""

    options: dict[str, Any]

    def new_catalog(self, folder: Path) -> IcebergCatalog:
        return IcebergCatalog(CatalogSpec("lake", "iceberg", self.options), folder)

    @pytest.fixture
    def session(self, iceberg_session: Callable[..., PySparkSession]) -> Iterator[PySparkSession]:
        session = iceberg_session(lake=self.options)
        for name, value in QUICK.items():
            session.spark.conf.set(name, value)
        return session


class TestFolders(IcebergConformance):
    """A catalog without a server."""

    @pytest.fixture(autouse=True)
    def declared(self, tmp_path: Path) -> None:
        self.options = declared("hadoop", tmp_path / "hadoop") | {"default-namespace": "shop"}


@pytest.mark.parametrize("kind", ["rest", "postgres", "nessie"], scope="class")
class TestServers(IcebergConformance):
    """Catalogs whose server keeps the current metadata: all but what is the same once that has been loaded."""

    # rows
    test_the_meaning_of_a_write_plan = None
    test_a_batch_that_does_not_fit_is_refused = None
    test_the_meaning_of_a_history = None
    test_a_full_refresh_of_partitions = None
    # which errors belong to which rows, by properties of snapshots
    test_an_error_table_is_described_without_an_engine = None
    test_an_error_table_without_rows = None
    test_errors_of_several_calls_are_one_table = None
    test_a_version_without_error_table_has_none = None
    test_an_error_table_of_another_name = None
    test_a_reader_of_errors_finishes_with_them = None
    test_another_table_is_no_error_table = None
    test_an_older_version_comes_back_with_its_errors = None

    @pytest.fixture(autouse=True)
    def declared(self, kind: str, iceberg_options: Callable[[str], dict[str, Any]]) -> None:
        self.options = iceberg_options(kind) | {"default-namespace": "shop"}
