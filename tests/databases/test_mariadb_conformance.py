"""The conformance suite of catalogs on a database of MariaDB, and on an environment of it; a few tests by day."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.conformance import only, with_one_plan
from support.mariadb import MariaSchema

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.write_plan import Refresh, Upsert
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.error_tables import ErrorTableConformance
from rivet_dagster.testing.plan_cases import CASES, PlanCase
from rivet_dagster.testing.plan_cases.case import fields
from rivet_dagster.testing.staging import StagingConformance
from rivet_dagster.testing.tables import rows_of, write

BY_DAY = (
    "test_what_is_written_is_seen_when_it_is_committed",
    "test_a_version_that_is_read_stays_as_it_is",
    "test_who_is_overtaken_does_not_publish",
    "test_the_table_that_is_evicted_is_gone",
    "test_the_first_version_of_a_table_is_staged",
    "test_tables_are_published_in_one_commit",
    "test_an_error_table_of_another_name",
    "test_a_withheld_version_is_published_later",
    "test_a_full_refresh_of_partitions",
    "test_readers_of_the_base_see_nothing_of_it",
    "test_a_new_table_is_merged",
    "test_abandoned_ones_are_swept",
)


@pytest.fixture
def session(application: PySparkEngine) -> Iterator[EngineSession]:
    with application.session() as session:
        yield session


def options_of(database: MariaSchema) -> dict[str, Any]:
    return {"url": database.jdbc, "user": database.user, "password": database.password, "reads": "locked"}


class InMariaDB:
    """A catalog in a database without tables, of a user who sees no other."""

    columns_keep_order = False

    @pytest.fixture(autouse=True)
    def _database(self, mariadb) -> None:
        self.database = mariadb.database().of_own_user()

    def refused(self, case: PlanCase) -> str | None:
        """Refuse other columns than the table's, and NaN."""
        if case.before is not None and set(fields(case.columns_after or case.columns)) != set(fields(case.columns)):
            return "RVT-514"
        batch = [value for row in case.batch for value in row]
        return "RVT-527" if any(isinstance(value, float) and not math.isfinite(value) for value in batch) else None

    def new_catalog(self, folder: Path) -> JdbcCatalog:
        return JdbcCatalog(CatalogSpec("shop", "jdbc", options_of(self.database)), folder)


def finite(case: PlanCase) -> PlanCase:
    """Return the case without rows of the table that hold NaN, which it cannot hold."""
    if case.before is None:
        return case
    are_numbers = [all(value == value for value in row) for row in case.before]
    return replace(case, before=[row for row, are in zip(case.before, are_numbers, strict=True) if are])


@pytest.mark.nightly
class TestMariaDB(InMariaDB, CatalogConformance):
    """All of the suite."""

    @pytest.mark.parametrize("case", [finite(case) for case in CASES], ids=lambda case: case.name)
    def test_the_meaning_of_a_write_plan(self, catalog: JdbcCatalog, session: EngineSession, case: PlanCase) -> None:
        super().test_the_meaning_of_a_write_plan(catalog, session, case)

    def test_a_full_refresh_is_a_version_like_others(self, catalog: JdbcCatalog, session: EngineSession) -> None:
        """Which changes no columns."""
        first = write(catalog, session, Upsert(keys=("id",)), [(1, "a", 1), (2, "b", 2)], "first")
        refreshed = write(catalog, session, Refresh(plan=Upsert(keys=("id",))), [(2, "x", 3), (2, "x", 3)], "second")
        assert (first.record.inserted, refreshed.record.inserted, refreshed.record.deleted) == (2, 1, 2)
        assert rows_of(catalog, session) == [(2, "x", 3)]


@pytest.mark.nightly
class TestEnvironment(InMariaDB, ErrorTableConformance, StagingConformance):
    """The suites of error tables and of ``publish: run``, in an environment."""

    def new_catalog(self, folder: Path) -> Any:
        catalog = super().new_catalog(folder)
        catalog.use_environment("pr-7", "default")
        return catalog.in_environment("pr-7")

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Any:
        return self.new_catalog(tmp_path)


@with_one_plan
@only(BY_DAY)
class TestByDay(InMariaDB, CatalogConformance):
    """A test for each part that MariaDB does in another way."""
