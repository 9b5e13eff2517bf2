"""What runs of each mode do beyond the rows: files, permissions, gates, retries, and what a user is told.

What the rows become is said by rivet_dagster.testing.plan_cases, and put to each catalog.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

import pytest
from support.batches import Table
from support.folders import ProjectFolder, sink

from rivet_dagster.errors import RivetError

ID = "id INT, name STRING"
DATED = "id INT, name STRING, at DATE"
A, B = (1, "a"), (2, "b")
MONDAY, TUESDAY, FRIDAY = date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 5)

MERGE = {"mode": "merge", "key_columns": ["id"]}


@pytest.fixture
def table(project):
    def make(strategy, columns: str = ID, **fields) -> Table:
        return Table(project({}), strategy, columns, **fields)

    return make


class TestFiles:
    """What a write cannot change is not written again."""

    @pytest.mark.parametrize("strategy", ["append_only", {"mode": "incremental_append", "watermark_column": "id"}])
    def test_rows_are_added_beside_those_that_are_there(self, table, strategy):
        out = table(strategy)
        out.write([A])
        before = out.files
        assert out.write([B]) == (1, 0, 0, 2)
        assert before < out.files
        assert out.rows == [A, B]

    def test_an_empty_batch_writes_no_empty_file(self, table):
        out = table("append")
        out.write([A])
        before = out.files
        assert out.write([]) == (0, 0, 0, 1)
        assert out.files == before

    def test_a_merge_that_changes_nothing_writes_nothing(self, table):
        out = table({"mode": "incremental", "unique_key": "id"})
        out.write([A, B])
        before = out.files
        assert out.write([A, B]) == (0, 0, 0, 2)
        assert out.files == before

    def test_a_merge_leaves_files_whose_keys_lie_elsewhere(self, table):
        out = table("append")
        out.write([A, B])
        low = out.files
        out.write([(101, "x"), (102, "y")])
        out.declare(MERGE)
        with unreadable(out.folder.root / "lake/out", low):
            assert out.write([(101, "X")]) == (0, 1, 0, 4)
        assert low < out.files
        assert out.rows == [A, (101, "X"), (102, "y"), B]

    def test_a_snapshot_leaves_the_files_of_other_partitions(self, table):
        out = table({"mode": "snapshot", "partition_column": "day"}, "day DATE, n INT")
        out.write([(day, n) for day in (MONDAY, TUESDAY, FRIDAY) for n in range(5)])
        before = out.files
        assert len(before) == 3
        assert out.write([(TUESDAY, 7)]) == (1, 0, 5, 11)
        assert len(out.files & before) == 2
        assert len(out.files) == 3

    def test_permissions_stay(self, table):
        out = table("truncate_insert")
        out.write([A])
        link = out.folder.root / "lake/out"
        link.chmod(0o750)
        for path in link.iterdir():
            path.chmod(0o640)
        assert out.write([B]) == (1, 0, 1, 1)
        assert link.stat().st_mode & 0o777 == 0o750
        assert {path.stat().st_mode & 0o777 for path in link.iterdir()} == {0o640}


def test_maps_are_merged_though_spark_compares_none(table):
    out = table(MERGE, "id INT, tags MAP<STRING,INT>")
    out.write([(1, {"a": 1}), (2, {"b": 2})])
    assert out.write([(1, {"a": 1}), (2, {"b": 3})]) == (0, 1, 0, 2)


class TestMessages:
    """What a user is told of a batch that is refused."""

    def test_columns_and_types(self, table):
        out = table("append")
        out.write([A])
        error = out.refuse([(True, 1.0)], "id BOOLEAN, net DOUBLE")
        assert (error.code, error.joint) == ("RVT-514", "out")
        assert error.message.endswith(
            "the batch lacks name; the table has no net (double); id is int in the table and boolean in the batch"
        )

    def test_keys_of_unequal_rows(self, table):
        error = table(MERGE).refuse([A, (1, "x"), B])
        assert (error.code, error.joint) == ("RVT-515", "out")
        assert error.message.endswith("nothing says which of them counts: id=1")

    def test_keys_of_a_tie(self, table):
        rows = [(1, "a", MONDAY), (1, "b", MONDAY), (2, "c", MONDAY)]
        error = table({**MERGE, "watermark_column": "at"}, DATED).refuse(rows)
        assert error.message.endswith("the greatest at is that of several: id=1")

    def test_rows_without_a_watermark(self, table):
        strategy = {"mode": "incremental_append", "watermark_column": "at"}
        error = table(strategy, DATED).refuse([(1, "a", MONDAY), (2, "b", None)])
        assert (error.code, error.joint) == ("RVT-516", "out")
        assert "1 rows of the batch have no at" in error.message

    def test_a_key_that_the_batch_lacks(self, project):
        merge = sink("out", "raw", write_strategy={"mode": "merge", "key_columns": ["idd"]})
        raw = {"type": "source", "catalog": "raw", "table": "raw"}
        folder = project({"data/raw.csv": "id,name\n1,a\n", "sources/raw.yaml": raw, "sinks/out.yaml": merge})
        with pytest.raises(RivetError) as caught:
            folder.run("out")
        (error,) = caught.value.diagnostics
        assert (error.code, error.joint) == ("RVT-513", "out")
        assert error.message == "the batch has no such column: `key_columns` names idd; did you mean 'id'?"

    def test_both_columns_and_keys(self, table):
        with pytest.raises(RivetError) as caught:
            table({"mode": "delete_insert", "partition_by": ["name"], "key_columns": ["id"]}).write([A])
        assert "goes by one of them" in str(caught.value)


class TestGates:
    """Assertions read the batch, audits the whole table afterwards."""

    @staticmethod
    def quality(kind: str, sql: str) -> dict:
        return {"quality": {kind: [{"type": "expression", "name": "small", "sql": sql}]}}

    def test_an_assertion_reads_only_the_batch(self, table):
        out = table("append")
        out.write([(100, "big")])
        out.declare("append", **self.quality("assertions", "id < 10"))
        assert out.write([A]) == (1, 0, 0, 2)
        result = out.run([(200, "bigger")])
        assert result.published is None
        assert result.checks[0].violations == 1
        assert out.rows == [A, (100, "big")]

    def test_an_audit_reads_the_whole_table(self, table):
        out = table("append")
        out.write([(100, "big")])
        out.declare("append", **self.quality("audits", "id < 10"))
        out.folder.write({
            "quality/out/large.sql": "-- @phase: audit\nSELECT * FROM out WHERE id >= 10",
            "quality/out/new.sql": "-- @phase: assertion\nSELECT * FROM {{ this }}",
        })  # fmt: skip
        result = out.run([A])
        assert result.published is None
        assert [(c.check.name, c.check.phase, c.violations) for c in result.checks] == [
            ("small", "audit", 1), ("large", "audit", 1), ("new", "assertion", 1),
        ]  # fmt: skip

    def test_an_audit_of_a_merge_reads_its_result(self, table):
        out = table(MERGE)
        out.write([(100, "bad"), A])
        out.declare(MERGE, **self.quality("audits", "name <> 'bad'"))
        assert out.run([B]).published is None
        assert out.write([(100, "good")]) == (0, 1, 0, 2)

    def test_the_joint_is_computed_once(self, table):
        out = table(MERGE, **self.quality("assertions", "id < 10"))
        out.write([A])
        out.give("SELECT 1 AS id, uuid() AS name")
        assert counts_of(out.folder.run("out")) == (0, 1, 0, 1)
        assert len(out.rows[0][1]) == 36

    def test_skip_publishes_nothing_for_an_empty_batch(self, table):
        out = table({**MERGE, "on_empty": "skip"})
        out.write([A])
        result = out.run([])
        assert result.skipped_empty
        assert result.published is None

    def test_fail_fails_for_an_empty_batch(self, table):
        out = table({"mode": "append", "on_empty": "fail"})
        out.write([A])
        assert out.refuse([]).code == "RVT-508"


@contextmanager
def unreadable(folder: Path, files: set[int]) -> Iterator[None]:
    """Have the data files that are identified by ``files`` be no Parquet for a while, though they look the same."""
    paths = [path for path in folder.resolve().iterdir() if path.stat().st_ino in files]
    contents = {path: (path.read_bytes(), path.stat()) for path in paths}
    for path, (content, status) in contents.items():
        path.write_bytes(bytes(len(content)))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with ExitStack() as stack:
        for path, (content, status) in contents.items():
            shared = os.open(path, os.O_WRONLY)  # its version may have expired by the end of the block
            stack.callback(os.close, shared)
            stack.callback(os.utime, shared, ns=(status.st_atime_ns, status.st_mtime_ns))
            stack.callback(os.pwrite, shared, content, 0)
        yield


def counts_of(result) -> tuple[int, int, int, int]:
    return (result.rows.inserted, result.rows.updated, result.rows.deleted, result.rows.total)


def test_a_retry_of_a_published_merge_reports_the_same_counts(project):
    folder = ProjectFolder(project({}).root, {"joints/batch.sql": "SELECT 1 AS id"})
    folder.write({"sinks/out.yaml": sink("out", "batch", write_strategy={"mode": "merge", "key_columns": ["id"]})})
    folder.run("out")
    folder.write({"joints/batch.sql": "SELECT id FROM range(1, 4)"})
    first = folder.run("out", identity="run/out")
    assert counts_of(first) == (2, 0, 0, 3)
    assert counts_of(folder.run("out", identity="run/out")) == (2, 0, 0, 3)


def test_the_scratch_files_of_a_batch_are_removed(project):
    out = Table(project({}), MERGE, ID)
    out.write([A])
    out.refuse([B, (2, "x")])
    assert not list((out.folder.root / ".rivet").rglob("*.parquet"))
