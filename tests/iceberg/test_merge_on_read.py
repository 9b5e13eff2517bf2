"""Tables whose properties say merge on read: changes write delete files, and mean what they mean by copy on write."""

from pathlib import Path
from urllib.parse import urlparse

import pytest
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, lake
from support.joint_by_joint import QUICK

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.write_plan import Append, DeleteInsert, History, ReplaceAll, ReplacePartitions, Upsert
from rivet_dagster.testing.plan_cases import CASES
from rivet_dagster.testing.plan_cases.case import COLUMNS, PlanCase
from rivet_dagster.testing.tables import TABLE, arrow_table, in_order, rows_of, sort, write, write_before

MERGE_ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("merge", "delete", "update")}
CHANGING = [
    next(case for case in CASES if isinstance(case.plan, kind) and case.before and any(case.counts[1:]))
    for kind in (Upsert, DeleteInsert, ReplacePartitions, History)
]


class MergingLake:
    """A catalog of folders, whose table is made merge on read."""

    def __init__(self, iceberg_session, tmp_path) -> None:
        options = declared("hadoop", tmp_path / "lake")
        self.catalog, self.session = lake(options, tmp_path), iceberg_session(lake=options)
        for name, value in QUICK.items():
            self.session.spark.conf.set(name, value)
        self.plain = connect_catalog("plain", options, tmp_path)

    def table(self):
        return self.plain.load_table((NAMESPACE, TABLE))

    def make(self, case: PlanCase) -> None:
        """Write the rows that a case begins with."""
        write_before(self.catalog, self.session, case.written_by, case.before, case.columns)
        with self.table().transaction() as transaction:
            transaction.set_properties(MERGE_ON_READ)

    def files(self) -> tuple[set[str], int]:
        """Return the data files, and the number of rows that delete files remove from them."""
        snapshot = self.table().current_snapshot()
        paths = {task.file.file_path for task in self.table().scan().plan_files()}
        return paths, int(snapshot.summary["total-position-deletes"])


@pytest.fixture
def merging(iceberg_session, tmp_path) -> MergingLake:
    return MergingLake(iceberg_session, tmp_path)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("case", CHANGING, ids=lambda case: type(case.plan).__name__)
def test_what_changes_rows_writes_delete_files(merging, case):
    merging.make(case)
    before, _ = merging.files()
    columns = case.batch_columns or case.columns
    published = write(merging.catalog, merging.session, case.plan, case.batch, "run", columns=columns)
    assert (published.record.inserted, published.record.updated, published.record.deleted) == case.counts
    assert published.statistics.rows == len(case.after)
    by_others = merging.table().scan().to_arrow()
    assert in_order(by_others) == rows_of(merging.catalog, merging.session) == sort(case.after)
    after, deleted = merging.files()
    assert before <= after
    assert deleted == sum(case.counts[1:])


def test_the_partitions_of_a_run_are_emptied_by_delete_files_and_other_writes_stay_right(merging):
    before = [(1, "a", 1), (2, "a", 1), (3, "b", 1), (4, None, 1)]
    merging.make(PlanCase("", ReplaceAll(), before=before, batch=(), after=(), counts=(0, 0, 0)))
    window = Window(Partitions("static", "day", values=("a", "b", "c")), ("a", "c"))
    with merging.catalog.begin(TABLE, merging.session) as transaction:
        batch = merging.session.from_value(arrow_table([(5, "a", 2), (6, "c", 2)], COLUMNS))
        transaction.write(ReplaceAll(), batch, WriteContext(window=window))
        assert dict(transaction.whole.partition_rows) == {"a": 1, "c": 1}
        published = transaction.commit("window")
    assert (published.record.inserted, published.record.deleted, published.statistics.rows) == (2, 2, 4)
    assert merging.files()[1] == 2
    write(merging.catalog, merging.session, Append(), [(7, "b", 3)], "append")
    rows = [(3, "b", 1), (4, None, 1), (5, "a", 2), (6, "c", 2), (7, "b", 3)]
    assert in_order(merging.table().scan().to_arrow()) == sort(rows)
    # New columns: all rows are written anew, without those that the delete files remove.
    wider = "id BIGINT, day STRING, n BIGINT, more BIGINT"
    write(merging.catalog, merging.session, Append(schema_change="add"), [(8, "b", 4, 4)], "wider", columns=wider)
    assert in_order(merging.table().scan().to_arrow()) == sort([*((*row, None) for row in rows), (8, "b", 4, 4)])
    assert merging.files()[1] == 0


@pytest.mark.parametrize("plan", [Upsert(keys=("id",)), DeleteInsert(columns=("id",))], ids=["upsert", "delete_insert"])
def test_files_whose_keys_lie_elsewhere_are_not_read(merging, plan):
    for rows in [(1, "low", 1), (None, "none", 2)], [(101, "high", 3), (103, "high", 4)]:
        write(merging.catalog, merging.session, Append(), rows, str(rows), columns=COLUMNS)
    tasks = merging.table().scan("id < 100 OR id IS NULL").plan_files()
    low = [Path(urlparse(task.file.file_path).path) for task in tasks]
    for path in low:
        path.rename(path.with_suffix(".away"))
    batch = [(101, "changed", 5), (102, "new", 6)]
    write(merging.catalog, merging.session, plan, batch, "changes", columns=COLUMNS)
    for path in low:
        path.with_suffix(".away").rename(path)
    after = [(1, "low", 1), (None, "none", 2), (103, "high", 4), *batch]
    assert low
    assert rows_of(merging.catalog, merging.session) == sort(after)
