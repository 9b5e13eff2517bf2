"""Corrupt records of CSV and JSON sources of quarantining groups, against a plain reading of the same files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support.folders import ProjectFolder, in_order, sink, source

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection

QUARANTINE = {"on_error": "quarantine"}
SCHEMA = "id INT, name STRING, amount INT"
MIXED = "id,name,amount\n1,a,10\n2,b\n3,c,30,x\n4,d,much\n5,,50\n,g,70\nx,h,80\n"
LINES = (
    '{"id": 1, "name": "a", "amount": 10}\n{"id": 2, "name": "b"\n{"id": 3, "amount": "much"}\n'
    '{"id": 4, "name": "d", "more": [1]}\n\nnothing\n{"id": 5, "name": null, "amount": 50}\n7\n'
)
ALL = "SELECT id, name, amount FROM orders"

Row = dict[str, Any]


def csv_reading(text: str) -> tuple[list[Row], list[str]]:
    """Return the rows of SCHEMA of a CSV text without quotes, and the other lines."""
    return reading(text.splitlines()[1:], lambda line: row_of(line.split(",")))


def json_reading(text: str) -> tuple[list[Row], list[str]]:
    """Return the rows of SCHEMA of JSON lines, and the other lines."""
    return reading(filter(None, text.splitlines()), lambda line: checked(json.loads(line)))


def reading(lines: Iterable[str], parse: Callable[[str], Row]) -> tuple[list[Row], list[str]]:
    rows, others = [], []
    for line in lines:
        try:
            rows.append(parse(line))
        except (ValueError, AttributeError):
            others.append(line)
    return in_order(rows), sorted(others)


def row_of(fields: list[str]) -> Row:
    identity, name, amount = fields
    return {"id": whole(identity), "name": name or None, "amount": whole(amount)}


def whole(text: str) -> int | None:
    return int(text) if text else None


def checked(record: Any) -> Row:
    row = {"id": record.get("id"), "name": record.get("name"), "amount": record.get("amount")}
    if not all(value is None or isinstance(value, int) for value in (row["id"], row["amount"])):
        raise ValueError(record)
    return row


def records(folder: ProjectFolder, table: str = "out__errors") -> list[str]:
    return sorted(json.loads(error["row"])["record"] for error in malformed(folder, table))


def malformed(folder: ProjectFolder, table: str = "out__errors") -> list[Row]:
    return [error for error in folder.rows(table) if error["code"] == "MALFORMED_RECORD"]


def orders(project, text: str, name: str = "orders.csv", query: str | None = ALL, **fields: Any) -> ProjectFolder:
    """Write a project in which a sink reads a source by a SQL joint, or directly if there is no query."""
    into = {**QUARANTINE, **fields.pop("into", {})}
    joints = {"joints/chosen.sql": query} if query is not None else {}
    return project({
        "sources/orders.yaml": source(name, SCHEMA, **fields), **joints,
        "sinks/out.yaml": sink("out", "chosen" if query is not None else "orders", **into), f"data/{name}": text,
    })  # fmt: skip


FORMATS = [("orders.csv", MIXED, csv_reading), ("orders.json", LINES, json_reading)]


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(("name", "text", "expected"), FORMATS)
@pytest.mark.parametrize("query", [ALL, None], ids=["joint", "sink"])
def test_corrupt_records_are_errors_of_the_source(project, name, text, expected, query):
    folder = orders(project, text, name, query, options={"format": name.partition(".")[2]})
    result = folder.run("out")
    rows, others = expected(text)
    assert len(rows) == 3
    assert folder.rows("out") == rows
    assert records(folder) == others
    assert (result.errors.count, result.errors.total, result.rows.total) == (len(others), len(others), len(rows))
    for error in folder.rows("out__errors"):
        assert [error[key] for key in ("joint", "code", "expression", "key")] == [
            "orders",
            "MALFORMED_RECORD",
            name,
            None,
        ]
        assert (error["file"], error["line"]) == ("sources/orders.yaml", 1)
        assert "could not be parsed" in error["message"]
    (site,) = result.errors.sites
    assert sorted(sample["record"] for sample in site.samples) == others


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("name", "text", "expected"), FORMATS)
@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("SELECT id FROM orders", lambda rows: [{"id": row["id"]} for row in rows]),
        ("SELECT COUNT(*) AS n FROM orders", lambda rows: [{"n": len(rows)}]),
        ("SELECT 1 AS one FROM orders", lambda rows: [{"one": 1} for _ in rows]),
        (
            "SELECT name FROM orders WHERE amount > 20",
            lambda rows: [{"name": row["name"]} for row in rows if (row["amount"] or 0) > 20],
        ),
    ],
)
def test_records_are_judged_by_all_columns_whatever_is_selected(project, name, text, expected, query, answer):
    folder = orders(project, text, name, query, options={"format": name.partition(".")[2]})
    folder.run("out")
    rows, others = expected(text)
    assert folder.rows("out") == in_order(answer(rows))
    assert records(folder) == others


def test_inline_columns_and_filter_are_those_of_good_rows(project):
    columns = ["id", {"double": "amount * 2"}]
    folder = orders(project, MIXED, query=None, columns=columns, filter="id IS NOT NULL AND amount < 40")
    folder.run("out")
    assert folder.rows("out") == [{"id": 1, "double": 20}]
    assert records(folder) == csv_reading(MIXED)[1]


def test_a_corrected_file_retracts_its_errors(project):
    folder = orders(project, MIXED)
    folder.run("out")
    assert records(folder) == csv_reading(MIXED)[1]
    corrected = "id,name,amount\n1,a,10\n2,b,20\n4,d,much\n"
    (folder.root / "data/orders.csv").write_text(corrected)
    folder.run("out")
    assert folder.rows("out") == csv_reading(corrected)[0]
    assert records(folder) == ["4,d,much"]
    (folder.root / "data/orders.csv").write_text("id,name,amount\n1,a,10\n")
    result = folder.run("out")
    assert (folder.rows("out__errors"), result.errors.count, result.errors.total) == ([], 0, 0)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"mode": "merge", "key_columns": ["id"]}, ["4,d,much"]),
        ({"mode": "append"}, ["2,b", "3,c,30,x", "4,d,much", "4,d,much", "x,h,80"]),
    ],
    ids=["keyed", "append"],
)
def test_errors_of_a_source_follow_the_rows_of_its_last_reading(project, strategy, expected):
    text = MIXED.replace(",g,70\n", "")
    folder = orders(project, text, into={"write_strategy": strategy})
    folder.run("out")
    (folder.root / "data/orders.csv").write_text("id,name,amount\n2,b,20\n4,d,much\n")
    result = folder.run("out")
    assert records(folder) == expected
    assert (result.errors.count, result.errors.total) == (1, len(expected))


def test_a_record_that_each_run_meets_is_one_error_where_only_new_rows_are_appended(project):
    query = "SELECT id, name FROM orders {% if is_incremental() %}WHERE id > {{ watermark_value }}{% endif %}"
    strategy = {"mode": "append", "watermark_column": "id"}
    folder = orders(project, "id,name,amount\n1,a,10\n2,b\n", query=query, into={"write_strategy": strategy})
    folder.run("out")
    (folder.root / "data/orders.csv").write_text("id,name,amount\n1,a,10\n2,b\n3,c,30\n")
    folder.run("out")
    assert folder.rows("out") == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert records(folder) == ["2,b"]


def test_they_stand_beside_the_errors_of_evaluation(project):
    folder = orders(project, MIXED, query="SELECT id, 100 DIV (amount - 10) AS part FROM orders")
    result = folder.run("out")
    assert folder.rows("out") == in_order([{"id": None, "part": 1}, {"id": 5, "part": 2}])
    assert records(folder) == csv_reading(MIXED)[1]
    assert {(site.joint, site.condition): site.count for site in result.errors.sites} == {
        ("orders", "MALFORMED_RECORD"): 4,
        ("chosen", "DIVIDE_BY_ZERO"): 1,
    }


@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED"}], ids=["permissive", "dropmalformed"])
def test_under_fail_the_readers_mode_decides(project, quick_session, options):
    folder = orders(project, MIXED, into={"on_error": "fail"}, options=options)
    result = folder.run("out")
    plain = quick_session.spark.read.options(header=True, **options).schema(SCHEMA)
    rows = plain.csv(f"file://{folder.root}/data/orders.csv").collect()
    assert folder.rows("out") == in_order(row.asDict() for row in rows)
    assert len(rows) == (7 if not options else 3)
    assert result.errors is None
    assert not (folder.root / "lake/out__errors").exists()


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    "fields",
    [
        {"options": {"mode": "DROPMALFORMED"}},
        {"options": {"Mode": "dropMalformed"}},
        {"options": {"schema": f"{SCHEMA}, _corrupt_record STRING"}},
        {"options": {"schema": f"{SCHEMA}, bad STRING", "columnNameOfCorruptRecord": "bad"}},
        {"limit": 100},
    ],
    ids=["mode", "spelling", "column", "named column", "limit"],
)
def test_a_source_that_says_what_becomes_of_them_stays_as_it_is(project, fields):
    folder = orders(project, MIXED, query=None, **fields)
    folder.run("out")
    rows, errors = folder.rows("out"), folder.rows("out__errors")
    folder.write({"sinks/out.yaml": sink("out", "orders", on_error="fail")}).run("out")
    assert (rows, errors) == (folder.rows("out"), [])
    assert rows


@pytest.mark.nightly
def test_failfast_of_the_user_fails(project):
    folder = orders(project, MIXED, options={"mode": "FAILFAST"})
    with pytest.raises(RivetError, match="2,b"):
        folder.run("out")
    assert not (folder.root / "lake/out").exists()


def test_of_a_landing_zone_only_the_new_files_count(project):
    folder = project({
        "sources/orders.yaml": source("incoming", SCHEMA, options={"landing": True}),
        "joints/chosen.sql": ALL, "sinks/out.yaml": sink("out", "chosen", **QUARANTINE),
    })  # fmt: skip
    drop = folder.root / "data/incoming"
    drop.mkdir()
    (drop / "a.csv").write_text(MIXED)
    folder.run("out")
    assert (folder.rows("out"), records(folder)) == csv_reading(MIXED)
    second = "id,name,amount\n9,z,90\n8,y\n"
    (drop / "b.csv").write_text(second)
    folder.run("out")
    assert (folder.rows("out"), records(folder)) == csv_reading(second)


def test_broken_lines_of_a_landing_zone_without_a_schema_give_no_column(project):
    zone = {"type": "source", "catalog": "raw", "table": "incoming", "options": {"landing": True, "format": "json"}}
    folder = project({
        "sources/orders.yaml": zone, "joints/chosen.sql": "SELECT * FROM orders",
        "sinks/out.yaml": sink("out", "chosen", **QUARANTINE),
    })  # fmt: skip
    drop = folder.root / "data/incoming"
    drop.mkdir()
    (drop / "a.json").write_text('{"id": 1, "name": "a"}\n{"id": 2\n')
    folder.run("out")
    assert (folder.rows("out"), records(folder)) == ([{"id": 1, "name": "a"}], ['{"id": 2'])
    folder.run("out")
    assert (folder.table("out").column_names, folder.rows("out"), records(folder)) == (["id", "name"], [], [])


def test_rows_and_records_pass_to_another_engine_as_arrow(engine, quick_session, tmp_path):
    (tmp_path / "a.csv").write_text(MIXED)
    relation = Files("csv", (str(tmp_path / "a.csv"),), {"header": "true", "schema": SCHEMA})

    def handle(separated: Callable[[PySparkSession], Any]) -> MaterializedRef:
        return MaterializedRef("orders", engine.session, lambda session: session.load(relation), separated=separated)

    passed = handle(lambda session: session.load_separated(relation)).passed_as_arrow()
    good, corrupt = passed.separated_in(quick_session)
    rows, others = csv_reading(MIXED)
    assert in_order(quick_session.to_arrow(good).to_pylist()) == rows
    assert sorted(quick_session.to_arrow(corrupt)["record"].to_pylist()) == others
    assert handle(lambda session: None).passed_as_arrow().separated_in(quick_session) is None


def test_records_of_several_lines(quick_session, tmp_path):
    text = 'id,name\n1,"a\nb"\n2,"c\nd",3\nx,e\n'
    (tmp_path / "a.csv").write_text(text)
    options = {"header": "true", "multiLine": "true", "schema": "id INT, name STRING"}
    good, corrupt = quick_session.load_separated(Files("csv", (str(tmp_path / "a.csv"),), options))
    first, *others = list(csv.reader(text.splitlines(keepends=True)))[1:]
    assert (first, [len(record) for record in others]) == (["1", "a\nb"], [3, 2])
    assert quick_session.to_arrow(good).to_pylist() == [{"id": 1, "name": "a\nb"}]
    assert quick_session.to_arrow(corrupt)["record"].to_pylist() == ['2,"c\nd",3', "x,e"]


@pytest.mark.parametrize("options", [{}, {"header": "true"}, {"header": "true", "inferSchema": "true"}], ids=str)
def test_columns_that_are_not_declared_are_those_of_a_plain_load(quick_session, tmp_path, options):
    for day, text in ((1, "id,name\n1,a\n2\n"), (2, "id,name\n3,c,4\n4,d\n")):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}/x.csv").write_text(text)
    relation = Files("csv", (str(tmp_path),), options)
    good, corrupt = quick_session.load_separated(relation)
    assert quick_session.schema(good) == quick_session.schema(quick_session.load(relation))
    plain = [tuple(row.values()) for row in in_order(quick_session.to_arrow(good).to_pylist())]
    kept = [("1", "a", 1), ("4", "d", 2)] + ([] if options else [("id", "name", 1), ("id", "name", 2)])
    assert sorted((str(a), b, day) for a, b, day in plain) == kept
    assert sorted(quick_session.to_arrow(corrupt)["record"].to_pylist()) == ["2", "3,c,4"]


def test_types_that_cannot_be_compared_are_judged_too(quick_session, tmp_path):
    (tmp_path / "a.json").write_text('{"m": {"a": 1}, "v": [1], "s": {"x": 1}}\n{"m": 5}\n{"s": {"x": "y"}}\n')
    schema = "m MAP<STRING, INT>, v VARIANT, s STRUCT<x: INT>"
    relation = Files("json", (str(tmp_path / "a.json"),), {"schema": schema})
    good, corrupt = quick_session.load_separated(relation, Projection((("one", "1"),)))
    assert quick_session.to_arrow(good).to_pylist() == [{"one": 1}]
    assert quick_session.to_arrow(corrupt)["record"].to_pylist() == ['{"m": 5}', '{"s": {"x": "y"}}']


def test_the_file_of_a_row_is_still_known(quick_session, tmp_path):
    (tmp_path / "a.csv").write_text("1\n2,3\n")
    good, _ = quick_session.load_separated(
        Files("csv", (str(tmp_path / "a.csv"),), {"schema": "id INT"}),
        Projection((("id", None), ("file", "_metadata.file_name"))),
    )
    assert quick_session.to_arrow(good).to_pylist() == [{"id": 1, "file": "a.csv"}]


def test_files_of_other_formats_hold_no_records(quick_session, tmp_path):
    quick_session.spark.sql("SELECT 1 AS id").write.parquet(f"file://{tmp_path}/p")
    assert quick_session.load_separated(Files("parquet", (f"{tmp_path}/p",))) is None
