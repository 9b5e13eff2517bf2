"""What is recorded of the bounds of texts by each path of publication, and watermarks of text columns by it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.iceberg import declared
from support.iceberg_duckdb import session
from support.iceberg_runs import access_of, lake

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.environments.tables_over_base import TablesOverBase
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan

DEFAULT = "write.metadata.metrics.default"
REPLACE = ReplaceAll()
TRUNCATING = {"properties": {DEFAULT: "truncate(4)"}}


class Days:
    """A table whose column ``day`` is a text."""

    def __init__(self, root: Path) -> None:
        self.root, self.numbers = root, iter(range(100))
        self.catalog, self.name = lake(declared("hadoop", root / "lake"), root), "days"

    def write(
        self,
        *days: str,
        plan: WritePlan = REPLACE,
        end: str = "commit",
        options: dict[str, Any] | None = None,
        within: TablesOverBase | None = None,
    ) -> Published | None:
        """Have a run write the days; ``within`` is the catalog of an environment."""
        catalog = within or self.catalog
        engine = session(self.root, lake=access_of(catalog).options)
        identity = f"run{next(self.numbers)}/days"
        with catalog.begin(self.name, engine, options or {}) as transaction:
            frame = engine.from_value(pa.table({"day": list(days)}))
            transaction.write(plan, frame, WriteContext(identity=identity))
            assert transaction.whole.statistics.tells_max("day") is (end != "unknown")
            return getattr(transaction, "commit" if end == "unknown" else end)(identity)

    def table(self):
        return self.catalog.access.open(self.name).load()

    def max(
        self, published: Published | None = None, within: TablesOverBase | None = None
    ) -> tuple[str | None, str | None]:
        """Return the maximum by the metadata alone, and by ``max_of``."""
        catalog = within or self.catalog
        version = published or catalog.current(self.name)
        assert version is not None
        return catalog.statistics(version).values["day"].max, catalog.max_of(version, "day")


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(tmp_path)


def test_each_path_of_publication_records_the_files_of_its_run(days):
    days.write("2026-01-01", "2026-01-02")
    assert days.max() == ("2026-01-02",) * 2
    days.write("2026-01-03", "2026-01-04", plan=Append())
    assert days.max() == ("2026-01-04",) * 2
    days.write("2026-01-04", "2026-01-05", plan=Upsert(keys=("day",)))
    assert days.max() == ("2026-01-05",) * 2
    with days.catalog.restage("days", days.catalog.versions("days")[1].name) as transaction:
        transaction.commit("rollback")
    assert days.max() == ("2026-01-04",) * 2
    days.write("2026-01-06", "2026-01-07", plan=Append(), end="withhold")
    withheld = next(version for version in days.catalog.versions("days") if version.state == "withheld")
    with days.catalog.take_up("days", withheld.name) as transaction:
        transaction.commit("taken up")
    assert days.max() == ("2026-01-07",) * 2
    for plan in (Append(), ReplaceAll()):
        staged = days.write("2026-01-08", "2026-01-09", plan=plan, end="stage")
        assert days.max(staged)[1] == "2026-01-09"
        with days.catalog.take_up_staged("days", staged.version) as transaction:
            transaction.commit(staged.identity)
        assert days.max() == ("2026-01-09",) * 2
    older = [snapshot.snapshot_id for snapshot in days.table().snapshots()][:-1]
    days.table().maintenance.expire_snapshots().by_ids(older).commit()
    assert days.max() == ("2026-01-09",) * 2


def test_files_of_other_writers_and_of_another_metrics_mode_are_read(days):
    days.write("2026-01-01", "2026-01-31", options=TRUNCATING, end="unknown")
    assert days.max() == (None, "2026-01-31")
    days.write("2026-01-30", "2026-02-01", plan=Append(), end="unknown")  # the property goes with this commit
    assert DEFAULT not in days.table().properties
    assert days.max() == (None, "2026-02-01")
    days.write("2026-02-01", "2026-02-02")
    assert days.max() == ("2026-02-02",) * 2
    days.table().append(pa.table({"day": ["2026-02-03", "2026-02-04"]}))
    assert days.max() == (None, "2026-02-04")
    days.write("2026-02-05", "2026-02-06", plan=Append(), end="unknown")
    days.table().delete("day = '2026-02-03' or day = '2026-02-04'")
    assert days.max() == ("2026-02-06",) * 2


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("options", [None, {"partitioned_by": ["day"]}])
def test_a_merge_records_what_runs_in_the_environment_have_written(days, options):
    """On a branch of the base's table, with another layout there, and for a table that the base does not have."""
    before = ["2026-01-01", "2026-01-02"]
    for exists in (True, False):
        days.name, environment = f"days_{exists}", f"pr-{exists}".lower()
        if exists:
            days.write(*before)
        days.catalog.use_environment(environment, "default")
        there = days.catalog.in_environment(environment)
        for day in (2, 4):
            days.write(f"2026-02-0{day}", f"2026-02-0{day + 1}", plan=Append(), options=options, within=there)
            assert days.max(there.current(days.name), there) == (f"2026-02-0{day + 1}",) * 2
        days.catalog.merge(environment)
        assert days.max() == ("2026-02-05",) * 2


def test_the_properties_of_the_base_are_those_by_which_files_are_written_on_its_branches(days):
    days.write("2026-01-01", "2026-01-02", options=TRUNCATING, end="unknown")
    days.catalog.use_environment("pr-7", "default")
    there = days.catalog.in_environment("pr-7")
    for day in (3, 5):
        days.write(f"2026-01-0{day}", f"2026-01-0{day + 1}", plan=Append(), end="unknown", within=there)
        assert days.max(there.current("days"), there) == (None, f"2026-01-0{day + 1}")
