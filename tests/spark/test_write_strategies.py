"""Effects of a batch on a table, row by row, in each mode."""

from datetime import date

import pytest
from support.batches import Table
from support.folders import ProjectFolder, sink

from rivet_dagster.errors import RivetError

ID = "id INT, name STRING"
A, B, C = (1, "a"), (2, "b"), (3, "c")


@pytest.fixture
def table(project):
    def make(strategy, columns: str = ID, **fields) -> Table:
        return Table(project({}), strategy, columns, **fields)

    return make


MERGE = {"mode": "merge", "key_columns": ["id"]}
NEWEST = {**MERGE, "order_by": ["at"]}
DATED = "id INT, name STRING, at DATE"


class TestReplace:
    def test_the_table_equals_the_batch_afterwards(self, table):
        out = table("replace")
        assert out.write([A, B]) == (2, 0, 0, 2)
        assert out.write([C]) == (1, 0, 2, 1)
        assert out.rows == [C]

    def test_the_table_gets_the_schema_of_the_batch(self, table):
        out = table("full_refresh")
        out.write([A])
        out.write([(date(2024, 1, 1),)], "day DATE")
        assert out.types == {"day": "date32[day]"}


class TestTruncateInsert:
    def test_the_rows_are_replaced_by_those_of_the_batch(self, table):
        out = table("truncate_insert")
        out.write([A, B])
        assert out.write([C]) == (1, 0, 2, 1)
        assert out.rows == [C]

    def test_columns_are_matched_by_name_in_the_order_of_the_table(self, table):
        out = table("truncate_insert")
        out.write([A])
        out.write([("b", 2)], "NAME STRING, ID INT")
        assert out.rows == [B]
        assert list(out.types) == ["id", "name"]

    def test_an_additional_column_is_rejected(self, table):
        out = table("truncate_insert")
        out.write([A])
        error = out.refuse([(1, 2.0)], "id INT, net DOUBLE")
        assert error.code == "RVT-514"
        assert "the batch lacks name; the table has no net (double)" in error.message

    def test_permissions_are_preserved(self, table):
        out = table("truncate_insert")
        out.write([A])
        link = out.folder.root / "lake/out"
        link.chmod(0o750)
        for path in link.iterdir():
            path.chmod(0o640)
        out.write([B])
        assert link.stat().st_mode & 0o777 == 0o750
        assert {path.stat().st_mode & 0o777 for path in link.iterdir()} == {0o640}


class TestAppend:
    def test_rows_are_added_to_existing_ones(self, table):
        out = table("append_only")
        assert out.write([A, B]) == (2, 0, 0, 2)
        assert out.write([B, C]) == (2, 0, 0, 4)
        assert out.rows == [A, B, B, C]

    def test_existing_files_are_not_rewritten(self, table):
        out = table("append")
        out.write([A])
        before = out.files
        out.write([B])
        assert before < out.files

    def test_an_empty_batch_writes_no_empty_file(self, table):
        out = table("append")
        out.write([A])
        before = out.files
        assert out.write([]) == (0, 0, 0, 1)
        assert out.files == before

    def test_an_empty_first_batch_creates_an_empty_table(self, table):
        out = table("append")
        assert out.write([]) == (0, 0, 0, 0)
        assert out.types == {"id": "int32", "name": "string"}
        assert out.write([A]) == (1, 0, 0, 1)

    def test_columns_are_matched_by_name_in_any_order_and_letter_case(self, table):
        out = table("append")
        out.write([A])
        out.write([("b", 2)], "Name STRING, ID INT")
        assert out.rows == [A, B]

    def test_a_new_column_is_rejected(self, table):
        out = table("append")
        out.write([A])
        error = out.refuse([(2, "b", 1.0)], "id INT, name STRING, net DOUBLE")
        assert (error.code, error.joint) == ("RVT-514", "out")
        assert "the table has no net (double)" in error.message

    def test_a_column_missing_from_the_batch_is_rejected(self, table):
        out = table("append")
        out.write([A])
        assert "the batch lacks name" in out.refuse([(2,)], "id INT").message

    def test_add_appends_new_columns_to_the_table(self, table):
        out = table({"mode": "append", "on_schema_change": "add"})
        out.write([A])
        assert out.write([(1.5, 2)], "net DOUBLE, id INT") == (1, 0, 0, 2)
        assert out.rows == [(1, "a", None), (2, None, 1.5)]
        assert out.write([C]) == (1, 0, 0, 3)
        assert list(out.types) == ["id", "name", "net"]

    def test_ignore_drops_new_columns_and_fills_missing_ones_with_null(self, table):
        out = table({"mode": "append", "on_schema_change": "ignore"})
        out.write([A])
        out.write([(1.5, 2)], "net DOUBLE, id INT")
        assert out.rows == [A, (2, None)]
        assert list(out.types) == ["id", "name"]

    @pytest.mark.parametrize("wide_first", [False, True])
    @pytest.mark.parametrize(
        ("narrow", "wide", "found"),
        [
            ("INT", "BIGINT", "int64"),
            ("FLOAT", "DOUBLE", "double"),
            ("DECIMAL(5,2)", "DECIMAL(9,2)", "decimal128(9, 2)"),
        ],
    )
    def test_the_wider_type_of_both_sides_is_used(self, table, narrow, wide, found, wide_first):
        first, second = (wide, narrow) if wide_first else (narrow, wide)
        out = table("append", f"x {first}")
        out.write([(1,)])
        out.write([(2,)], f"x {second}")
        assert out.types == {"x": found}
        assert [float(x) for (x,) in out.rows] == [1.0, 2.0]

    @pytest.mark.parametrize("kind", ["STRING", "DATE", "BOOLEAN"])
    def test_an_incompatible_type_is_rejected_with_the_column(self, table, kind):
        out = table({"mode": "append", "on_schema_change": "add"})
        out.write([A])
        error = out.refuse([(None, "b")], f"id {kind}, name STRING")
        assert error.code == "RVT-514"
        assert f"id is int in the table and {kind.lower()} in the batch" in error.message


class TestMerge:
    def test_the_first_run_inserts_all(self, table):
        assert table(MERGE).write([A, B]) == (2, 0, 0, 2)

    def test_rows_of_a_known_key_are_updated_and_others_inserted(self, table):
        out = table({"mode": "incremental", "unique_key": "id"})
        out.write([A, B])
        assert out.write([(2, "B"), C]) == (1, 1, 0, 3)
        assert out.rows == [A, (2, "B"), C]

    def test_equal_rows_are_not_updated(self, table):
        out = table(MERGE)
        out.write([A, B])
        assert out.write([A, (2, "B")]) == (0, 1, 0, 2)

    def test_the_same_batch_again_changes_nothing(self, table):
        out = table(MERGE)
        out.write([A, B])
        before = out.files
        assert out.write([A, B]) == (0, 0, 0, 2)
        assert out.files == before

    def test_an_empty_batch_changes_nothing(self, table):
        out = table(MERGE)
        out.write([A])
        assert out.write([]) == (0, 0, 0, 1)
        assert out.rows == [A]

    def test_a_null_key_is_a_key(self, table):
        out = table(MERGE)
        out.write([(None, "x"), A])
        assert out.write([(None, "y")]) == (0, 1, 0, 2)
        assert out.rows == [(None, "y"), A]

    def test_a_null_in_one_of_several_keys_is_a_key(self, table):
        out = table({"mode": "merge", "key_columns": ["id", "name"]}, "id INT, name STRING, net INT")
        out.write([(1, None, 10), (None, "a", 20), (None, None, 30)])
        assert out.write([(1, None, 11), (None, None, 30), (2, None, 40)]) == (1, 1, 0, 4)
        assert out.rows == [(None, None, 30), (None, "a", 20), (1, None, 11), (2, None, 40)]

    def test_a_value_that_becomes_null_is_an_update(self, table):
        out = table(MERGE)
        out.write([A])
        assert out.write([(1, None)]) == (0, 1, 0, 1)
        assert out.rows == [(1, None)]

    def test_columns_are_matched_by_name(self, table):
        out = table(MERGE)
        out.write([A])
        assert out.write([("x", 1)], "NAME STRING, ID INT") == (0, 1, 0, 1)
        assert out.rows == [(1, "x")]

    def test_duplicate_rows_count_once(self, table):
        out = table(MERGE)
        assert out.write([A, A, B]) == (2, 0, 0, 2)
        assert out.write([C, C]) == (1, 0, 0, 3)

    def test_ambiguous_keys_are_rejected_on_the_first_run_too(self, table):
        error = table(MERGE).refuse([A, (1, "x"), B])
        assert (error.code, error.joint) == ("RVT-515", "out")
        assert error.message.endswith("nothing says which of them counts: id=1")

    def test_ambiguous_keys_are_rejected_on_later_runs(self, table):
        out = table(MERGE)
        out.write([A])
        assert "id=2" in out.refuse([B, (2, "x"), C]).message

    def test_the_row_with_the_greatest_order_wins(self, table):
        out = table(NEWEST, DATED)
        early, late = (1, "early", date(2024, 1, 1)), (1, "late", date(2024, 1, 2))
        assert out.write([early, late]) == (1, 0, 0, 1)
        assert out.rows == [late]
        assert out.write([(1, "x", date(2023, 1, 1)), early]) == (0, 1, 0, 1)  # within the batch, not against the table
        assert out.rows == [early]

    def test_a_null_order_is_the_least(self, table):
        out = table(NEWEST, DATED)
        out.write([(1, "none", None), (1, "some", date(2000, 1, 1))])
        assert out.rows == [(1, "some", date(2000, 1, 1))]

    def test_a_tie_for_the_greatest_order_is_rejected(self, table):
        day = date(2024, 1, 1)
        error = table(NEWEST, DATED).refuse([(1, "a", day), (1, "b", day), (2, "c", day)])
        assert error.message.endswith("the greatest at is that of several: id=1")

    def test_a_tie_below_the_greatest_order_does_not_matter(self, table):
        out = table(NEWEST, DATED)
        low, high = date(2024, 1, 1), date(2024, 1, 2)
        out.write([(1, "a", low), (1, "b", low), (1, "c", high)])
        assert out.rows == [(1, "c", high)]

    def test_the_watermark_column_is_the_default_order(self, table):
        out = table({**MERGE, "watermark_column": "at"}, DATED)
        out.write([(1, "a", date(2024, 1, 1)), (1, "b", date(2024, 1, 2))])
        assert out.rows == [(1, "b", date(2024, 1, 2))]

    def test_all_rows_of_a_duplicate_key_in_the_table_are_updated(self, table):
        out = table("append")
        out.write([A, (1, "x"), B])
        out.folder.write({"sinks/out.yaml": sink("out", "batch", write_strategy=MERGE)})
        assert out.write([(1, "x")]) == (0, 1, 0, 3)
        assert out.rows == [(1, "x"), (1, "x"), B]

    def test_maps_are_merged_too(self, table):
        out = table(MERGE, "id INT, tags MAP<STRING,INT>")
        out.write([(1, {"a": 1}), (2, {"b": 2})])
        assert out.write([(1, {"a": 1}), (2, {"b": 3})]) == (0, 1, 0, 2)

    def test_files_with_other_key_ranges_are_not_rewritten(self, table):
        out = table("append")
        out.write([A, B])
        low = out.files
        out.write([(101, "x"), (102, "y")])
        out.folder.write({"sinks/out.yaml": sink("out", "batch", write_strategy=MERGE)})
        assert out.write([(101, "X")]) == (0, 1, 0, 4)
        assert low < out.files
        assert out.rows == [A, (101, "X"), (102, "y"), B]

    def test_a_key_column_missing_from_the_batch_is_an_error(self, project):
        merge = sink("out", "raw", write_strategy={"mode": "merge", "key_columns": ["idd"]})
        raw = {"type": "source", "catalog": "raw", "table": "raw"}
        folder = project({"data/raw.csv": "id,name\n1,a\n", "sources/raw.yaml": raw, "sinks/out.yaml": merge})
        with pytest.raises(RivetError) as caught:
            folder.run("out")
        (error,) = caught.value.diagnostics
        assert (error.code, error.joint) == ("RVT-513", "out")
        assert error.message == "the batch has no such column: `key_columns` names idd; did you mean 'id'?"


class TestDeleteInsert:
    def test_rows_of_the_partitions_in_the_batch_are_replaced(self, table):
        out = table({"mode": "delete_insert", "partition_by": ["name"]})
        out.write([A, (9, "a"), B])
        assert out.write([(5, "a"), (5, "a")]) == (2, 0, 2, 3)  # duplicates remain
        assert out.rows == [B, (5, "a"), (5, "a")]

    def test_rows_of_the_keys_in_the_batch_are_replaced(self, table):
        out = table({"mode": "delete_insert", "key_columns": ["id"]})
        out.write([A, (1, "x"), B])
        assert out.write([(1, "y")]) == (1, 0, 2, 2)
        assert out.rows == [(1, "y"), B]

    def test_null_is_a_partition(self, table):
        out = table({"mode": "delete_insert", "partition_by": ["name"]})
        out.write([(1, None), (2, "b")])
        assert out.write([(3, None)]) == (1, 0, 1, 2)
        assert out.rows == [B, (3, None)]

    def test_several_columns_form_one_partition(self, table):
        out = table({"mode": "delete_insert", "partition_by": ["id", "name"]}, "id INT, name STRING, n INT")
        out.write([(1, "a", 1), (1, None, 2), (2, "a", 3)])
        out.write([(1, None, 9)])
        assert out.rows == [(1, None, 9), (1, "a", 1), (2, "a", 3)]

    def test_an_empty_batch_deletes_nothing(self, table):
        out = table({"mode": "delete_insert", "partition_by": ["name"]})
        out.write([A])
        assert out.write([]) == (0, 0, 0, 1)

    def test_partition_by_and_key_columns_together_are_rejected(self, table):
        with pytest.raises(RivetError) as caught:
            table({"mode": "delete_insert", "partition_by": ["name"], "key_columns": ["id"]}).write([A])
        assert "goes by one of them" in str(caught.value)


SNAPSHOT = {"mode": "snapshot", "partition_column": "day"}
DAYS = "day DATE, n INT"
MONDAY, TUESDAY, FRIDAY = date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 5)


class TestSnapshot:
    def test_the_partitions_in_the_batch_are_replaced(self, table):
        out = table(SNAPSHOT, DAYS)
        out.write([(MONDAY, 1), (MONDAY, 2), (TUESDAY, 3)])
        assert out.write([(MONDAY, 9), (FRIDAY, 4)]) == (2, 0, 2, 3)
        assert out.rows == [(MONDAY, 9), (TUESDAY, 3), (FRIDAY, 4)]

    def test_only_partitions_in_the_batch_are_written(self, table):
        out = table(SNAPSHOT, DAYS)
        out.write([(day, n) for day in (MONDAY, TUESDAY, FRIDAY) for n in range(5)])
        before = out.files
        assert len(before) == 3
        out.write([(TUESDAY, 7)])
        assert len(out.files & before) == 2
        assert len(out.files) == 3

    def test_null_is_a_partition(self, table):
        out = table(SNAPSHOT, DAYS)
        out.write([(None, 1), (MONDAY, 2)])
        assert out.write([(None, 3)]) == (1, 0, 1, 2)
        assert out.rows == [(None, 3), (MONDAY, 2)]

    def test_a_table_that_was_not_written_by_partitions(self, table):
        out = table("append", DAYS)
        out.write([(MONDAY, 1), (TUESDAY, 2), (FRIDAY, 3)])
        out.folder.write({"sinks/out.yaml": sink("out", "batch", write_strategy=SNAPSHOT)})
        assert out.write([(TUESDAY, 9)]) == (1, 0, 1, 3)
        assert out.rows == [(MONDAY, 1), (TUESDAY, 9), (FRIDAY, 3)]

    def test_an_empty_batch_replaces_nothing(self, table):
        out = table(SNAPSHOT, DAYS)
        assert out.write([]) == (0, 0, 0, 0)
        out.write([(MONDAY, 1)])
        assert out.write([]) == (0, 0, 0, 1)

    def test_columns_are_read_with_their_order_and_types(self, table):
        out = table({"mode": "snapshot", "partition_column": "code"}, "code STRING, n INT")
        out.write([("01", 1), ("1", 2)])
        out.write([("01", 3)])
        assert out.rows == [("01", 3), ("1", 2)]
        assert out.types == {"code": "string", "n": "int32"}

    def test_strings_like_paths_and_long_strings(self, table):
        out = table({"mode": "snapshot", "partition_column": "code"}, "code STRING, n INT")
        strange = ["a/b", "", "a=b", "ü%20", "x" * 300]
        out.write([(code, 1) for code in strange])
        out.write([(code, 2) for code in strange[1:]])
        assert out.rows == sorted([("a/b", 1), *((code, 2) for code in strange[1:])], key=lambda row: row[0])

    def test_numbers_with_a_fraction(self, table):
        out = table({"mode": "snapshot", "partition_column": "x"}, "x DOUBLE, n INT")
        out.write([(0.0, 1), (1.5, 2), (float("nan"), 3)])
        assert out.write([(-0.0, 4), (float("nan"), 5)]) == (2, 0, 2, 3)
        assert sorted(n for _, n in out.rows) == [2, 4, 5]


NEWER = {"mode": "incremental_append", "watermark_column": "at"}


class TestIncrementalAppend:
    def test_rows_newer_than_the_whole_table_are_added(self, table):
        out = table(NEWER, "at DATE, n INT")
        assert out.write([(MONDAY, 1), (TUESDAY, 2)]) == (2, 0, 0, 2)
        assert out.write([(TUESDAY, 3), (FRIDAY, 4), (MONDAY, 5)]) == (1, 0, 0, 3)
        assert out.rows == [(MONDAY, 1), (TUESDAY, 2), (FRIDAY, 4)]

    def test_existing_files_are_not_rewritten(self, table):
        out = table(NEWER, "at DATE, n INT")
        out.write([(MONDAY, 1)])
        before = out.files
        out.write([(FRIDAY, 4)])
        assert before < out.files

    def test_the_same_batch_again_adds_nothing(self, table):
        out = table(NEWER, "at DATE, n INT")
        out.write([(MONDAY, 1)])
        assert out.write([(MONDAY, 1)]) == (0, 0, 0, 1)

    def test_a_row_without_a_watermark_is_an_error(self, table):
        error = table(NEWER, "at DATE, n INT").refuse([(MONDAY, 1), (None, 2)])
        assert (error.code, error.joint) == ("RVT-516", "out")
        assert "1 rows of the batch have no at" in error.message

    def test_an_empty_table_gets_all_rows(self, table):
        out = table(NEWER, "at DATE, n INT")
        out.write([])
        assert out.write([(MONDAY, 1)]) == (1, 0, 0, 1)

    def test_a_watermark_of_another_type_is_rejected(self, table):
        out = table(NEWER, "at DATE, n INT")
        out.write([(MONDAY, 1)])
        error = out.refuse([("2024-01-02", 2)], "at STRING, n INT")
        assert "at is date in the table and string in the batch" in error.message


class TestGates:
    """Assertions read the batch, audits the whole table afterwards."""

    @staticmethod
    def quality(kind: str, sql: str) -> dict:
        return {"quality": {kind: [{"type": "expression", "name": "small", "sql": sql}]}}

    def test_an_assertion_reads_only_the_batch(self, table):
        out = table("append")
        out.write([(100, "big")])
        strict = sink("out", "batch", write_strategy="append", **self.quality("assertions", "id < 10"))
        out.folder.write({"sinks/out.yaml": strict})
        assert out.write([A]) == (1, 0, 0, 2)
        result = out.run([(200, "bigger")])
        assert result.published is None
        assert result.checks[0].violations == 1
        assert out.rows == [A, (100, "big")]

    def test_an_audit_reads_the_whole_table(self, table):
        out = table("append")
        out.write([(100, "big")])
        strict = sink("out", "batch", write_strategy="append", **self.quality("audits", "id < 10"))
        out.folder.write({
            "sinks/out.yaml": strict,
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
        audited = sink("out", "batch", write_strategy=MERGE, **self.quality("audits", "name <> 'bad'"))
        out.folder.write({"sinks/out.yaml": audited})
        assert out.run([B]).published is None
        assert out.write([(100, "good")]) == (0, 1, 0, 2)

    def test_the_joint_is_computed_once(self, table):
        out = table(MERGE, **self.quality("assertions", "id < 10"))
        out.write([A])
        out.folder.write({"joints/batch.sql": "SELECT 1 AS id, uuid() AS name"})
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
