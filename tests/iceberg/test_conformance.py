"""The conformance suite for catalogs on Iceberg.

What engines do is tried on folders, with Spark; what the catalog does by itself, and what a server or a database does
for it, with DuckDB, whose session makes the same commits in a fraction of the time. One test of each server shows that
Spark reaches it; ``make torture`` tries the others with Spark too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.conformance import (
    COMMITS,
    READ_BY_ENGINES,
    ROWS,
    TESTS,
    by_day,
    only,
    with_few_cases_by_day,
    with_one_plan,
)
from support.iceberg import declared
from support.iceberg_duckdb import session as duckdb_session
from support.joint_by_joint import QUICK
from support.nessie import Nessie
from support.torture import TORTURE, at_length, some

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.write_plan import Append, Refresh, ReplaceAll, ReplacePartitions, Upsert
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.environments import EnvironmentConformance
from rivet_dagster.testing.error_tables import ErrorTableConformance
from rivet_dagster.testing.plan_cases import CASES, PlanCase
from rivet_dagster.testing.staging import StagingConformance
from rivet_dagster.testing.tables import fill, rows_of, write

PROPERTIES = (  # which errors belong to which rows, by properties of snapshots
    "test_an_error_table_is_described_without_an_engine",
    "test_an_error_table_without_rows",
    "test_errors_of_several_calls_are_one_table",
    "test_a_version_without_error_table_has_none",
    "test_an_error_table_of_another_name",
    "test_a_reader_of_errors_finishes_with_them",
    "test_another_table_is_no_error_table",
    "test_an_older_version_comes_back_with_its_errors",
)
COMMITS_OF_REST = (  # what databases do as well, of which the suite has another
    *COMMITS,
    "test_a_merge_publishes_its_tables",
    "test_a_merge_is_refused_where_the_base_has_moved",
)

COMMITS_OF_NESSIE = (  # and what it keeps in branches and in its own commits: environments, runs, tables together
    *COMMITS_OF_REST,
    "test_the_errors_of_an_evicted_table_are_gone",
    "test_the_first_version_of_a_table_is_staged",
    "test_a_run_that_is_overtaken_is_told_so",
    "test_no_sweep_removes_what_is_kept_alive",
    "test_a_new_table_is_merged",
    "test_a_drop_removes_all_of_it",
    "test_an_environment_belongs_to_one_profile",
    "test_an_older_version_comes_back",
    "test_a_staged_version_is_read_by_its_run_alone",
    "test_errors_are_staged_with_their_rows",
    "test_tables_are_published_in_one_commit",
    "test_of_tables_in_one_commit_none_is_published_if_one_was_overtaken",
    "test_a_table_that_was_not_built_there_is_the_bases",
    "test_readers_of_the_base_see_nothing_of_it",
    "test_the_base_it_was_built_upon_stays_readable",
    "test_a_failed_run_builds_nothing",
    "test_a_run_there_stages_for_its_last_step",
)
OF_SERVERS = tuple(name for name in TESTS if name not in (*ROWS, *PROPERTIES))


def cases_of_iceberg() -> list[PlanCase]:
    """Return the writes by Iceberg's own statements, and one for each outcome of those by the code of all catalogs."""
    chosen, outcomes = [], set()
    for case in CASES:
        new = case.before is None, case.columns_after, isinstance(case.plan, Refresh)
        if TORTURE or new == (False, None, False) or new not in outcomes:
            chosen.append(case)
        outcomes.add(new)
    return chosen


class OnIceberg:
    """A catalog with ``options``."""

    options: dict[str, Any]

    def new_catalog(self, folder: Path) -> IcebergCatalog:
        return IcebergCatalog(CatalogSpec("lake", "iceberg", self.options), folder)

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> IcebergCatalog:
        return self.new_catalog(tmp_path)


class OnSpark(OnIceberg):
    """Sessions of Spark."""

    @pytest.fixture
    def session(self, iceberg_session: Callable[..., PySparkSession]) -> PySparkSession:
        session = iceberg_session(lake=self.options)
        for name, value in QUICK.items():
            session.spark.conf.set(name, value)
        return session


class OnDuckDB(OnIceberg):
    """Sessions without a JVM."""

    @pytest.fixture
    def session(self, tmp_path: Path) -> EngineSession:
        return duckdb_session(tmp_path, lake=self.options)


class InFolders:
    """A catalog without a server."""

    @pytest.fixture(autouse=True)
    def declared(self, tmp_path: Path) -> None:
        self.options = declared("hadoop", tmp_path / "hadoop") | {"default-namespace": "shop"}


class OfKind:
    """A catalog of a kind."""

    @pytest.fixture(autouse=True)
    def declared(self, kind: str, iceberg_options: Callable[[str], dict[str, Any]]) -> None:
        self.options = iceberg_options(kind) | {"default-namespace": "shop"}


@with_few_cases_by_day
@only([*ROWS, *READ_BY_ENGINES], TESTS)
class TestFolders(InFolders, OnSpark, CatalogConformance):
    """All that writes rows, and the states of a table that Spark reads."""

    @pytest.mark.parametrize("case", some(cases_of_iceberg(), 20), ids=lambda case: case.name)
    def test_the_meaning_of_a_write_plan(
        self, catalog: IcebergCatalog, session: PySparkSession, case: PlanCase
    ) -> None:
        super().test_the_meaning_of_a_write_plan(catalog, session, case)


@only([*OF_SERVERS, *PROPERTIES])
class TestFoldersOnDuckDB(InFolders, OnDuckDB, CatalogConformance):
    """All but the meaning of plans."""

    def test_the_column_by_which_rows_are_split_is_none_of_a_new_table(
        self, catalog: IcebergCatalog, session: EngineSession
    ) -> None:
        """Iceberg splits rows by the table's own partitions."""
        new = write(catalog, session, ReplacePartitions(column="id"), [(1, "a", 1), (2, "b", 2)], "one")
        assert catalog.access.load(new.table).schema().column_names == ["id", "day", "n"]


class TestEnvironment(InFolders, OnDuckDB, ErrorTableConformance, StagingConformance):
    """The suites of error tables and of ``publish: run``, in an environment."""

    def new_catalog(self, folder: Path) -> IcebergCatalog:
        catalog = super().new_catalog(folder)
        catalog.use_environment("pr-7", "default")
        return catalog.in_environment("pr-7")


@by_day("test_readers_of_the_base_see_nothing_of_it", "test_a_merge_is_refused_where_the_base_has_moved")
@pytest.mark.parametrize("kind", ["sqlite"], scope="class")
class TestDatabase(OfKind, OnDuckDB, EnvironmentConformance):
    """Environments where a database keeps the current metadata."""


@pytest.mark.parametrize("kind", ["nessie"], scope="class")
@only(COMMITS_OF_NESSIE, OF_SERVERS)
class TestNessie(OfKind, OnDuckDB, CatalogConformance):
    """What depends on who keeps the current metadata; environments are branches of the server."""


@pytest.mark.parametrize("kind", ["rest"], scope="class")
@with_one_plan
@only(COMMITS_OF_REST, OF_SERVERS)
class TestRest(OfKind, OnDuckDB, CatalogConformance):
    """What depends on who keeps the current metadata."""


@at_length
@pytest.mark.parametrize("kind", ["postgres"], scope="class")
@with_one_plan
@only(COMMITS, OF_SERVERS)
class TestPostgres(OfKind, OnDuckDB, CatalogConformance):
    """What depends on who keeps the current metadata, but for environments, which ``TestDatabase`` tries."""


@pytest.mark.parametrize("kind", ["rest", *(["postgres"] if TORTURE else [])], scope="class")
@with_one_plan
@only(["test_a_staged_version_is_read_by_its_run_alone"], OF_SERVERS)
class TestServersOnSpark(OfKind, OnSpark, CatalogConformance):
    """Spark writes and reads a branch, and a staging table, of each server."""


@pytest.mark.parametrize("kind", ["nessie"], scope="class")
@with_one_plan
@only(["test_a_staged_version_is_read_by_its_run_alone", "test_readers_of_the_base_see_nothing_of_it"], OF_SERVERS)
class TestNessieOnSpark(OfKind, OnSpark, CatalogConformance):
    """And a branch of the server, which a run has, and which an environment is."""

    def test_a_run_is_one_commit(self, catalog: IcebergCatalog, session: PySparkSession, nessie: Nessie) -> None:
        """Spark stages on the run's branch, and reads what was published, and what a version has appended."""
        table = "lake.shop.orders"
        with catalog.begin("orders", session) as gated:
            fill(gated, session, ReplaceAll(), [(0, "x", 0)])
        write(catalog, session, ReplaceAll(), [(1, "a", 1), (2, "b", 2)], "one")
        base = write(catalog, session, Upsert(keys=("id",)), [(2, "b", 3)], "two")
        last = write(catalog, session, Append(), [(4, "d", 4)], "three")
        with catalog.begin("orders", session) as gated:
            fill(gated, session, Upsert(keys=("id",)), [(1, "x", 0)])
        history = nessie.call("GET", f"trees/{self.options['ref']}/history")["logEntries"]
        assert [entry["commitMeta"]["message"] for entry in history] == [f"Publish {table}"] * 3
        assert catalog.building() == ()
        assert rows_of(catalog, session) == [(1, "a", 1), (2, "b", 3), (4, "d", 4)]
        versions = {"start-snapshot-id": base.version, "end-snapshot-id": last.version}
        added = session.spark.read.format("iceberg").options(**versions).load(table)
        assert [tuple(row) for row in added.collect()] == [(4, "d", 4)]
        assert session.spark.sql(f"SELECT count(*) FROM {table}.refs").collect()[0][0] == 1
