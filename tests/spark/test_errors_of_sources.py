"""Expressions of sources that fail on a row, in groups that quarantine rows, and in those that do not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, sink, source

from rivet_dagster.definitions.partitions import window
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.showing import shown_rows
from rivet_dagster.model.partitions import parse_partitions

QUARANTINE = {"on_error": "quarantine"}
MERGE = {"mode": "merge", "key_columns": ["id"]}
ORDERS = "id,amount,day\n1,10,2026-01-01\n2,x,2026-01-02\n3,30,soon\n4,40,2026-01-04\n5,-5,2026-01-05\n"
COLUMNS = ["id", {"amount": "CAST(amount AS INT)"}, {"day": "CAST(day AS DATE)"}]
FIELDS: dict[str, Any] = {"columns": COLUMNS, "filter": "CAST(id AS INT) > 0 AND NOT amount LIKE '-%'"}


def found(folder: ProjectFolder, table: str = "out__errors") -> set[tuple[Any, ...]]:
    keys = ("joint", "code", "expression", "file", "line")
    return {(*(error[key] for key in keys), json.loads(error["row"])["id"]) for error in folder.rows(table)}


def at(line: int, expression: str, identity: Any) -> tuple[Any, ...]:
    return ("orders", "CAST_INVALID_INPUT", expression, "sources/orders.yaml", line, identity)


def lines_of(folder: ProjectFolder) -> dict[str, int]:
    """Return the lines of a source's keys and aliases, by a reading of its own."""
    texts = (folder.root / "sources/orders.yaml").read_text("utf-8").splitlines()
    return {text.strip("- ").partition(":")[0]: number for number, text in enumerate(texts, 1)}


def orders(project, text: str = ORDERS, **files: Any) -> ProjectFolder:
    return project({"sources/orders.yaml": source("orders.csv", "id STRING, amount STRING, day STRING", **FIELDS),
                    "data/orders.csv": text, **files})  # fmt: skip


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "sink"])
def test_rows_that_fail_in_a_source_are_errors_of_the_source(project, joint):
    chosen = {"joints/chosen.sql": "SELECT amount, id FROM orders"} if joint else {}
    reads = "chosen" if joint else "orders"
    folder = orders(
        project, ORDERS + "six,60,2026-01-06\n", **chosen, **{"sinks/out.yaml": sink("out", reads, **QUARANTINE)}
    )
    result = folder.run("out")
    assert [row["id"] for row in folder.rows("out")] == ["1", "4"]
    lines = lines_of(folder)
    assert found(folder) == {
        at(lines["amount"], "CAST(amount AS INT)", "2"),
        at(lines["day"], "CAST(day AS DATE)", "3"),
        at(lines["filter"], "CAST(id AS INT)", "six"),
    }
    assert result.errors.count == 3


def test_hidden_columns_of_files_can_be_used(project):
    fields = {"columns": [{"amount": "CAST(amount AS INT)"}, {"file": "_metadata.file_name"}]}
    folder = project(
        {
            "sources/orders.yaml": source("orders.csv", "id STRING, amount STRING", **fields),
            "data/orders.csv": "id,amount\n1,10\n2,x\n",
            "sinks/out.yaml": sink("out", "orders", **QUARANTINE),
        }
    )
    folder.run("out")
    assert folder.rows("out") == [{"amount": 10, "file": "orders.csv"}]
    assert found(folder) == {at(lines_of(folder)["amount"], "CAST(amount AS INT)", "2")}


def test_the_line_of_an_expression_is_its_own_in_a_block_of_text(project):
    declared = (
        "type: source\ncatalog: raw\ntable: orders.csv\noptions: {schema: 'id STRING, amount STRING'}\ncolumns:\n"
        "  - id\n  - amount: |\n      coalesce(NULL,\n        CAST(amount AS INT))\n"
        "filter: |\n  id <> ''\n  AND CAST(id AS INT) > 0 -- a comment\n"
    )
    folder = project({"sources/orders.yaml": declared, "data/orders.csv": "id,amount\n1,10\n2,x\nsix,60\n",
                      "sinks/out.yaml": sink("out", "orders", **QUARANTINE)})  # fmt: skip
    folder.run("out")
    assert folder.rows("out") == [{"id": "1", "amount": 10}]
    assert found(folder) == {at(9, "CAST(amount AS INT)", "2"), at(12, "CAST(id AS INT)", "six")}


def test_a_failing_run_tells_all_rows_of_a_source(project):
    folder = orders(project, **{"sinks/out.yaml": sink("out", "orders")})
    with pytest.raises(RivetError) as caught:
        folder.run("out")
    lines = lines_of(folder)
    told = {(each.code, each.joint, each.file, each.line) for each in caught.value.diagnostics}
    assert told == {("RVT-520", "orders", "sources/orders.yaml", lines[key]) for key in ("amount", "day")}
    assert not (folder.root / "lake/out").exists()


def test_each_reader_has_its_own_errors_and_the_check_sees_the_rows_that_hold(project):
    check = {"assertions": [{"type": "expression", "sql": "amount > 5", "name": "amounts"},
                            {"type": "row_count", "min": 2, "max": 2}]}  # fmt: skip
    folder = orders(project, **{
        "joints/early.sql": "SELECT * FROM orders WHERE day < DATE'2026-01-03'",
        "joints/later.sql": "SELECT id, 100 DIV (amount - 10) AS part FROM orders",
        "sinks/out.yaml": sink("out", "early", **QUARANTINE),
        "sinks/second.yaml": sink("second", "later", write_strategy=MERGE, **QUARANTINE),
        "sinks/third.yaml": sink("third", "orders"),
    })  # fmt: skip
    folder.write(
        {"sources/orders.yaml": source("orders.csv", "id STRING, amount STRING, day STRING", **FIELDS, quality=check)}
    )
    results = {name: folder.run(name) for name in ("out", "second")}
    lines = lines_of(folder)
    own = {at(lines["amount"], "CAST(amount AS INT)", "2"), at(lines["day"], "CAST(day AS DATE)", "3")}
    assert [row["id"] for row in folder.rows("out")] == ["1"]
    assert [row["id"] for row in folder.rows("second")] == ["4"]
    assert found(folder) == own
    divided = ("later", "DIVIDE_BY_ZERO", "100 DIV (amount - 10)", "joints/later.sql", 1, "1")
    assert found(folder, "second__errors") == own | {divided}
    assert {error["key"] for error in folder.rows("second__errors")} == {f'{{"id":"{n}"}}' for n in "123"}
    assert {name: result.errors.count for name, result in results.items()} == {"out": 2, "second": 3}
    assert [row["id"] for row in shown_rows(folder.runtime, "early", 9).rows] == ["1"]
    with pytest.raises(RivetError, match="RVT-520"):
        folder.run("third", unjudged_sources=["orders"])


def test_they_stand_beside_corrupt_records_and_a_limit_takes_good_rows(project):
    chosen = {
        "joints/chosen.sql": "SELECT id, amount FROM orders",
        "sinks/out.yaml": sink("out", "chosen", **QUARANTINE),
    }
    fields = {"columns": ["id", {"amount": "CAST(amount AS INT)"}]}
    files = {"data/orders.csv": "id,amount\n1,x\n2,20\n3\n4,40\n"}
    folder = project(
        {"sources/orders.yaml": source("orders.csv", "id INT, amount STRING", **fields), **files, **chosen}
    )
    folder.run("out")
    assert [row["id"] for row in folder.rows("out")] == [2, 4]
    assert {error["code"]: error["row"] for error in folder.rows("out__errors")} == {
        "CAST_INVALID_INPUT": '{"id":1,"amount":"x"}',
        "MALFORMED_RECORD": '{"record":"3"}',
    }
    limited = source("orders.csv", "id INT, amount STRING", limit=1, **fields)
    folder.write({"sources/orders.yaml": limited}).run("out")
    assert (folder.rows("out"), len(folder.rows("out__errors"))) == ([{"id": 2, "amount": 20}], 1)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("strategy", "left"),
    [(MERGE, ["y"]), ({"mode": "append"}, ["x", "y", "y"]), ({"mode": "append", "watermark_column": "id"}, ["y"])],
    ids=["merge", "append", "incremental"],
)
def test_errors_of_a_source_that_is_read_again_are_those_of_its_last_reading(project, strategy, left):
    only_new = "{% if is_incremental() %}WHERE id > {{ watermark_value }}{% endif %}"
    query = f"SELECT id, amount FROM orders {only_new if 'watermark_column' in strategy else ''}"
    fields = {"columns": [{"id": "CAST(id AS INT) + 0"}, {"amount": "CAST(amount AS INT)"}]}
    folder = project({
        "sources/orders.yaml": source("orders.csv", "id STRING, amount STRING", **fields),
        "data/orders.csv": "id,amount\n1,10\n2,x\nbad,30\n3,y\n", "joints/chosen.sql": query,
        "sinks/out.yaml": sink("out", "chosen", write_strategy=strategy, **QUARANTINE),
    })  # fmt: skip
    folder.run("out")
    assert [json.loads(error["row"])["id"] for error in folder.rows("out__errors")] == ["2", "3", "bad"]
    folder.write({"data/orders.csv": "id,amount\n1,10\n2,20\n3,y\n"})
    result = folder.run("out")
    errors = [json.loads(error["row"]) for error in folder.rows("out__errors")]
    assert sorted(error["amount"] for error in errors if error["id"] != "bad") == left
    assert any(error["id"] == "bad" for error in errors) is (left == ["x", "y", "y"])
    assert result.errors.count == 1


def test_of_a_landing_zone_only_the_new_files_count(project):
    fields = {"columns": ["id", {"amount": "CAST(amount AS INT)"}], "options": {"landing": True}}
    folder = project({
        "sources/orders.yaml": source("incoming", "id INT, amount STRING", **fields),
        "sinks/out.yaml": sink("out", "orders", write_strategy="append", **QUARANTINE),
        "data/incoming/a.csv": "id,amount\n1,10\n2,x\n",
    })  # fmt: skip
    folder.run("out")
    folder.write({"data/incoming/b.csv": "id,amount\n3,y\n4,40\n"})
    result = folder.run("out")
    assert [row["id"] for row in folder.rows("out")] == [1, 4]
    assert {error[-1] for error in found(folder)} == {2, 3}
    assert (result.errors.count, result.errors.total) == (1, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("day", ["CAST(at AS DATE)", "at"], ids=["computed", "renamed"])
def test_a_run_of_a_partition_has_the_errors_of_its_rows_and_those_of_no_partition(project, day):
    days = {"type": "daily", "column": "day", "start": "2026-01-01"}
    fields = {"columns": ["id", {"day": day}, {"amount": "CAST(amount AS INT)"}], "partitions": days}
    folder = project({
        "sources/orders.yaml": source("orders.csv", "id INT, at STRING, amount STRING", **fields),
        "data/orders.csv": "id,at,amount\n1,2026-01-01,x\n2,2026-01-02,y\n3,2026-01-02,30\n4,soon,40\n",
        "sinks/out.yaml": sink("out", "orders", partitions=days, **QUARANTINE),
    })  # fmt: skip
    nowhere = {4} if day != "at" else set()
    for key, good, bad in (("2026-01-02", [3], {2}), ("2026-01-01", [3], {1, 2}), ("2026-01-02", [3], {1, 2})):
        folder.run("out", window=window(parse_partitions(days), [key]))
        assert [row["id"] for row in folder.rows("out")] == good
        errors = [json.loads(error["row"])["id"] for error in folder.rows("out__errors")]
        assert (set(errors), len(errors)) == (bad | nowhere, len(bad | nowhere))


def test_rows_of_parquet_files_and_a_union_of_sources(project):
    table = {"type": "source", "catalog": "lake", "table": "raw.parquet"}
    folder = project({
        "sources/a.yaml": {**table, "columns": ["id", {"v": "100 DIV n"}]},
        "sources/b.yaml": {**table, "columns": ["id", {"v": "n"}], "filter": "10 DIV (id - 1) > 0"},
        "sinks/out.yaml": sink("out", "a", "b", **QUARANTINE),
    })  # fmt: skip
    (folder.root / "lake").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "n": [5, 0, 1]}), folder.root / "lake/raw.parquet")
    folder.run("out")
    assert folder.rows("out") == [{"id": n, "v": v} for n, v in ((1, 20), (2, 0), (3, 1), (3, 100))]
    assert {(joint, expression, identity) for joint, _, expression, *_, identity in found(folder)} == {
        ("a", "100 DIV n", 2), ("b", "10 DIV (id - 1)", 1),
    }  # fmt: skip


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("key", ["id", "day"])
def test_a_key_that_fails_is_told_where_another_condition_leaves_its_row_out(project, key):
    """A first run by the author's query succeeds: Spark filters the rows before it casts their keys."""
    folder = project(
        {
            "sources/orders.yaml": source("orders.csv", "id STRING, amount INT, day DATE"),
            "sources/names.yaml": source("names.csv", "id INT, day DATE, name STRING"),
            "joints/named.sql": f"SELECT o.amount, n.name\nFROM orders AS o JOIN names AS n\nON o.{key} = n.{key} "
            "AND o.amount > 10",
            "sinks/out.yaml": sink("out", "named", **QUARANTINE),
            "data/orders.csv": "id,amount,day\nx,10,2026-01-01\n2,20,2026-01-02\n",
            "data/names.csv": "id,day,name\n1,2026-01-01,a\n2,2026-01-02,b\n",
        }
    )
    result = folder.run("out")
    assert folder.rows("out") == [{"amount": 20, "name": "b"}]
    told = {("named", "CAST_INVALID_INPUT", "o.id = n.id", "joints/named.sql", 3, "x")} if key == "id" else set()
    assert (found(folder) if told else set()) == told
    assert result.errors.count == len(told)
