"""The run of one group on a real Spark: written rows, number of queries, and the state after failures."""

import builtins
import time
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.folders import WORKSPACE, ProjectFolder, in_order, sink, source

from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import PHASES
from rivet_dagster.execution.quality.judging import check_published, check_source
from rivet_dagster.execution.reading.inputs import reference

SALES = {
    "data/orders.csv": """\
id,customer,amount,status
1,ada,10.50,paid
2,bob,20.00,paid
3,ada,5.25,open
4,cyd,7.00,paid
5,bob,1.75,paid
6,,3.00,paid
""",
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount DECIMAL(10, 2), status STRING"),
    "joints/paid.sql": "-- rivet:description: nothing open\n\nSELECT * FROM orders WHERE status = 'paid';\n",
    "joints/totals.sql": "SELECT customer, sum(amount) AS total, count(*) AS n FROM paid GROUP BY customer",
    "joints/ranked.sql": "WITH paid AS (FROM totals) SELECT *, rank() OVER (ORDER BY total DESC) AS place FROM paid",
    "sinks/report.yaml": sink("report", "ranked"),
}
RANKED = """
    SELECT *, rank() OVER (ORDER BY total DESC) AS place FROM (
        SELECT customer, sum(amount::DECIMAL(10, 2)) AS total, count(*) AS n
        FROM read_csv('{}', header = true) WHERE status = 'paid' GROUP BY customer)
"""

DIRT = """\
id,code,qty,name
1,a,5,x
2,b,,x
2,a,7,
,c,-1,y
5,,0,y
5,a,3,y
2,b,4,z
"""


def failure(call, *arguments, **options) -> RivetError:
    with pytest.raises(RivetError) as caught:
        call(*arguments, **options)
    return caught.value


def place(error: RivetError) -> tuple[str, str | None, str | None]:
    (found,) = error.diagnostics
    return found.code, found.joint, found.file


def checked_files(*checks: dict[str, Any], data: str = DIRT) -> dict[str, Any]:
    """Write a project that copies a file to the table `out`, with these checks."""
    return {
        "data/rows.csv": data,
        "sources/rows.yaml": source("rows", "id INT, code STRING, qty INT, name STRING"),
        "sinks/out.yaml": sink("out", "rows", assertions=checks),
    }


def assert_unchanged(folder: ProjectFolder, table: str, before: dict[str, bytes]) -> None:
    """Assert that the table is unchanged byte for byte, with no staged version beside it."""
    assert before
    assert folder.bytes_of(table) == before
    published = {path.split("/")[2] for path in before}
    assert folder.versions(table) == sorted(
        name for version in published for name in (version, f"{version}.files.json", f"{version}.json")
    )


# one query


def test_a_fused_group_is_one_execution_however_many_joints_it_has(project, sql_executions):
    sales = project(SALES)
    assert sales.assembly.group("report").joints == ("orders", "paid", "totals", "ranked", "report")
    result = sales.run("report")
    assert sql_executions.since() == 1
    assert vars(result.rows) == {"inserted": 4, "updated": 0, "deleted": 0, "total": 4}
    assert set(result.phases) == set(PHASES)
    assert min(result.phases["branch"], result.phases["config"], result.phases["write"], result.phases["publish"]) > 0


def test_a_fused_group_gives_the_rows_of_its_joints_run_one_by_one(project, sql_executions):
    sales = project(SALES)
    sales.run_all()
    fused = sales.rows("report")
    expected = duckdb.sql(RANKED.format(sales.root / "data/orders.csv")).to_arrow_table()
    assert sales.table("report").column_names == expected.column_names
    assert fused == in_order(expected.to_pylist())

    eager = {name: f"-- rivet:eager: true\n{SALES[name]}" for name in SALES if name.startswith("joints/")}
    sales.write(eager)
    assert sales.assembly.execution_order == ("paid", "totals", "ranked", "report")
    sql_executions.since()
    sales.run_all()
    assert sql_executions.since() == 4
    assert sales.rows("report") == fused
    assert [row["id"] for row in sales.rows("paid", WORKSPACE)] == [1, 2, 4, 5, 6]


def test_running_again_replaces_the_rows_with_equal_ones(project):
    sales = project(SALES)
    first = sales.run("report")
    rows = sales.rows("report")
    second = sales.run("report", identity="test/report")
    assert sales.rows("report") == rows
    assert second.published.version > first.published.version
    assert (second.rows.inserted, second.rows.deleted, second.rows.total) == (4, 4, 4)
    assert second.published.identity == "test/report"


def test_a_sink_of_several_upstreams_is_their_union_by_name_in_one_execution(project, sql_executions):
    union = project({
        "data/a.csv": "id,name\n1,x\n2,y\n",
        "sources/a.yaml": source("a", "id INT, name STRING"),
        "joints/turned.sql": "SELECT 'z' AS name, 3L AS id",
        "joints/upper.sql": "SELECT upper(name) AS name, id FROM a",
        "sinks/everything.yaml": sink("everything", "a", "turned", "upper"),
    })  # fmt: skip
    union.run("everything")
    assert sql_executions.since() == 1
    assert union.table("everything").schema.names == ["id", "name"]
    rows = [(row["id"], row["name"]) for row in union.rows("everything")]
    assert sorted(rows) == [(1, "X"), (1, "x"), (2, "Y"), (2, "y"), (3, "z")]


@pytest.mark.parametrize(
    "other", ["SELECT 2 AS id", "SELECT 2 AS id, 'y' AS nmae", "SELECT 2 AS id, 'y' AS name, 3 AS c"]
)
def test_a_union_whose_columns_differ_fails_at_the_sink(project, other):
    union = project({
        "joints/one.sql": "SELECT 1 AS id, 'x' AS name",
        "joints/other.sql": other,
        "sinks/both.yaml": sink("both", "one", "other"),
    })  # fmt: skip
    assert place(failure(union.run, "both")) == ("RVT-503", "both", "sinks/both.yaml")
    assert union.versions("both") == []


def test_duplicate_column_names_are_rejected_by_name(project):
    twice = project({"joints/a.sql": "SELECT 1 AS id, 2 AS x, 3 AS ID", "sinks/out.yaml": sink("out", "a")})
    error = failure(twice.run, "out")
    assert place(error) == ("RVT-316", "a", "joints/a.sql")
    assert "id" in error.diagnostics[0].message
    assert twice.versions("out") == []


# the gate


def test_a_failing_gate_publishes_nothing_and_leaves_the_table_byte_for_byte(project):
    gate = project(checked_files({"type": "not_null", "columns": ["id"]}, data="id,code,qty,name\n1,a,1,x\n"))
    assert gate.run("out").published is not None
    before = gate.bytes_of("out")
    gate.write({"data/rows.csv": DIRT})
    result = gate.run("out")
    assert (result.gate_failed, result.published, result.rows) == (True, None, None)
    assert_unchanged(gate, "out", before)
    assert gate.rows("out") == [{"id": 1, "code": "a", "qty": 1, "name": "x"}]


def test_a_gate_that_fails_at_the_first_run_leaves_no_table(project):
    gate = project(checked_files({"type": "not_null", "columns": ["id"]}))
    assert gate.run("out").gate_failed
    assert not (gate.root / "lake/out").is_symlink()
    assert gate.versions("out") == []


def test_the_gate_reads_the_staged_rows_not_the_published_ones(project):
    good, bad = "id,code,qty,name\n1,a,1,x\n", "id,code,qty,name\n,a,1,x\n"
    check = {"type": "not_null", "columns": ["id"]}
    gate = project(checked_files({**check, "severity": "warn"}, data=bad))
    assert gate.run("out").published is not None
    gate.write({**checked_files(check), "data/rows.csv": good})
    assert gate.run("out").checks[0].passed
    assert gate.rows("out")[0]["id"] == 1
    gate.write({"data/rows.csv": bad})
    assert not gate.run("out").checks[0].passed
    assert gate.rows("out")[0]["id"] == 1


def test_a_warning_publishes(project):
    gate = project(checked_files({"type": "not_null", "columns": ["id"], "severity": "warn"}))
    result = gate.run("out")
    assert [(check.passed, check.blocks, check.violations) for check in result.checks] == [(False, False, 1)]
    assert result.rows.total == len(gate.rows("out")) == 7


CHECKS: list[tuple[dict[str, Any], str]] = [
    ({"type": "not_null", "columns": ["id"]}, "count(*) FILTER (id IS NULL)"),
    ({"type": "not_null", "columns": ["id", "code"]}, "count(*) FILTER (id IS NULL OR code IS NULL)"),
    ({"type": "not_null", "columns": ["qty"], "samples": 0}, "count(*) FILTER (qty IS NULL)"),
    ({"type": "unique", "columns": ["id"]}, "count(id) - count(DISTINCT id)"),
    ({"type": "unique", "columns": ["id", "code"]},
     "count(*) FILTER (id + length(code) IS NOT NULL) - count(DISTINCT id || code)"),
    ({"type": "unique", "columns": ["name", "qty"]},
     "count(*) FILTER (qty + length(name) IS NOT NULL) - count(DISTINCT name || qty)"),
    ({"type": "row_count", "min": 10}, "10 - count(*)"),
    ({"type": "row_count", "max": 5}, "count(*) - 5"),
    ({"type": "row_count", "min": 7, "max": 7}, "0"),
    ({"type": "accepted_values", "column": "code", "values": ["a", "b"]}, "count(*) FILTER (code NOT IN ('a', 'b'))"),
    ({"type": "accepted_values", "column": "qty", "values": [0, 3, 4]}, "count(*) FILTER (qty NOT IN (0, 3, 4))"),
    ({"type": "accepted_values", "column": "name", "values": ["x", "y", "z"]}, "0"),
    ({"type": "expression", "sql": "qty >= 0 -- not below"}, "count(*) FILTER (NOT qty >= 0)"),
    ({"type": "expression", "sql": "id < 5 OR code = 'a'"}, "count(*) FILTER (NOT (id < 5 OR code = 'a'))"),
    ({"type": "custom", "sql": "SELECT * FROM {{ this }} WHERE qty < 3 -- few"}, "count(*) FILTER (qty < 3)"),
    ({"type": "custom", "sql": "WITH o AS (SELECT * FROM out)\nSELECT * FROM o WHERE name = 'y';"},
     "count(*) FILTER (name = 'y')"),
]  # fmt: skip


def test_every_kind_of_check_counts_its_violations_in_rows_with_nulls(project):
    checks = [{"severity": "warn", **check} for check, _ in CHECKS]
    gate = project(checked_files(*checks))
    found = gate.run("out").checks
    counts = ", ".join(count for _, count in CHECKS)
    expected = duckdb.sql(f"SELECT {counts} FROM read_csv('{gate.root}/data/rows.csv', header = true)").fetchall()[0]
    assert [check.violations for check in found] == list(expected)
    assert [check.passed for check in found] == [count == 0 for count in expected]
    assert [check.error for check in found] == [None] * len(CHECKS)
    assert [check.check.kind for check in found] == [check["type"] for check, _ in CHECKS]

    rows = [{"id": r["id"], "code": r["code"], "qty": r["qty"], "name": r["name"]} for r in gate.rows("out")]
    for check in found:
        if check.check.kind in ("row_count", "unique") or check.passed or check.check.samples == 0:
            assert check.samples == () or check.check.kind == "unique"
        else:
            assert len(check.samples) == check.violations
            assert all(sample in rows for sample in check.samples)
    copies = {sample["id"]: sample["rows_of_this_key"] for sample in found[3].samples}
    assert copies == {2: 3, 5: 2}


def test_samples_are_ten_at_most_and_as_many_as_asked_for(project):
    rows = "id,code,qty,name\n" + "".join(f"{n},a,{n},x\n" for n in range(25))
    expression = {"type": "expression", "sql": "qty < 0", "severity": "warn"}
    gate = project(checked_files(expression, {**expression, "samples": 2}, {**expression, "samples": 0}, data=rows))
    found = gate.run("out").checks
    assert [check.violations for check in found] == [25, 25, 25]
    assert [len({sample["qty"] for sample in check.samples}) for check in found] == [10, 2, 0]


def test_a_check_that_cannot_run_fails_with_its_own_error_and_others_still_run(project):
    broken = [
        ({"type": "expression", "sql": "quantity(id) > 0"}, "quantity"),
        ({"type": "not_null", "columns": ["qty.nope"]}, "qty"),
        ({"type": "unique", "columns": ["name.no_key"]}, "name"),
        ({"type": "accepted_values", "column": "qty", "values": ["many"]}, "many"),
        ({"type": "expression", "sql": "1 / (qty - qty) > 0"}, "Division by zero"),
        ({"type": "expression", "sql": "no_such_function(qty)"}, "no_such_function"),
    ]
    good = [{"type": "not_null", "columns": ["id"]}, {"type": "expression", "sql": "qty < 100"}]
    gate = project(checked_files(good[0], *[check for check, _ in broken], good[1]))
    result = gate.run("out")
    assert result.published is None
    first, *failed, last = result.checks
    assert (first.passed, first.violations, first.error) == (False, 1, None)
    assert (last.passed, last.violations, last.error) == (True, 0, None)
    for check, (_, word) in zip(failed, broken, strict=True):
        assert (check.passed, check.violations, check.samples) == (False, None, ())
        assert word in check.error
        assert check.blocks


def test_a_check_that_takes_too_long_fails_and_stops(project):
    endless = "id > (SELECT max(id % 7) FROM range(0, 1000000000000, 1, 2))"
    gate = project(checked_files(
        {"type": "expression", "sql": endless, "timeout": "1s"},
        {"type": "unique", "columns": ["name"], "timeout": "60s"},
        {"type": "not_null", "columns": ["id"]},
    ))  # fmt: skip
    started = time.monotonic()
    late, unique, not_null = gate.run("out").checks
    assert time.monotonic() - started < 60  # generous for a busy machine; the query would take hours
    assert (late.passed, late.violations) == (False, None)
    assert "1 s" in late.error
    assert (unique.violations, not_null.violations) == (3, 1)


def test_row_level_checks_need_no_query_if_they_pass_and_a_row_count_needs_none(project, sql_executions):
    row_level = [
        {"type": "not_null", "columns": ["code"], "severity": "warn"},
        {"type": "expression", "sql": "qty IS NULL OR qty > -10"},
        {"type": "accepted_values", "column": "code", "values": ["a", "b", "c"]},
        {"type": "expression", "sql": "length(name) = 1"},
    ]
    unique, count = {"type": "unique", "columns": ["id", "code", "qty"]}, {"type": "row_count", "min": 1}
    for checks, queries in (
        ([count], 0),
        (row_level[1:], 0),
        ([*row_level[1:], count, unique], 1),
        (row_level, 1),  # for the samples of the one that fails, whose violations the footers count
        ([{**row_level[0], "samples": 0}, *row_level[1:]], 0),
        ([{"type": "row_count", "min": 100}], 0),
    ):
        gate = project(checked_files(*checks))
        gate.assembly  # noqa: B018
        sql_executions.since()
        assert len(gate.run("out").checks) == len(checks)
        assert sql_executions.since() == 1 + queries


def test_a_gated_source_is_checked_in_place_before_its_reader_reads(project, sql_executions):
    files = checked_files()
    files["sources/rows.yaml"] = source(
        "rows", "id INT, code STRING, qty INT, name STRING",
        quality={"assertions": [{"type": "not_null", "columns": ["id"]}, {"type": "row_count", "min": 1}]},
    )  # fmt: skip
    gate = project(files)
    results = check_source(gate.runtime, "rows")
    assert [(r.passed, r.violations) for r in results] == [(False, 1), (True, 0)]
    error = failure(gate.run, "out", unjudged_sources=["rows"])
    assert place(error) == ("RVT-507", "rows", "sources/rows.yaml")
    assert "not_null_id" in str(error)
    assert gate.versions("out") == []
    assert gate.run("out").rows.total == 7  # another step has checked it


def test_published_rows_can_be_checked_again_and_are_not_changed(project):
    gate = project(
        checked_files({"type": "not_null", "columns": ["id"], "severity": "warn"}, {"type": "row_count", "min": 1})
    )
    assert place(failure(check_published, gate.runtime, "out"))[0] == "RVT-401"
    gate.run("out")
    before = gate.bytes_of("out")
    gate.write({"data/rows.csv": "id,code,qty,name\n1,a,1,x\n"})
    assert [(r.passed, r.violations) for r in check_published(gate.runtime, "out")] == [(False, 1), (True, 0)]
    assert_unchanged(gate, "out", before)


# queries that fail


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT CAST(name AS INT) AS id FROM rows", "CAST_INVALID_INPUT"),
        ("SELECT 1 / (qty - qty) AS x FROM rows", "DIVIDE_BY_ZERO"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT nmae() FROM rows", "nmae"),
        ("SELECT sum(qty) FROM rows GROUP BY", "PARSE_SYNTAX_ERROR"),
        ("SELECT NULL AS x", "x"),
    ],
)
def test_a_query_that_fails_leaves_the_previous_table(project, text, word):
    files = {**checked_files(), "joints/made.sql": "SELECT * FROM rows", "sinks/out.yaml": sink("out", "made")}
    broken = project(files)
    broken.run("out")
    before = broken.bytes_of("out")
    broken.write({"joints/made.sql": f"-- rivet:upstream: rows\n{text}"})
    error = failure(broken.run, "out")
    assert error.code == ("RVT-520" if word in ("CAST_INVALID_INPUT", "DIVIDE_BY_ZERO") else "RVT-503")
    assert word in str(error)
    assert_unchanged(broken, "out", before)


def test_a_missing_file_is_an_error_of_the_source_and_leaves_the_previous_table(project):
    gone = project(checked_files())
    gone.run("out")
    before = gone.bytes_of("out")
    (gone.root / "data/rows.csv").unlink()
    assert place(failure(gone.run, "out")) == ("RVT-403", "rows", "sources/rows.yaml")
    assert_unchanged(gone, "out", before)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("wrong", ["nmae(id) AS id", "1 / (id - id) AS id", "id id id"])
@pytest.mark.parametrize(("culprit", "upstream"), [("paid", "orders"), ("totals", "middle"), ("ranked", "totals")])
def test_an_error_inside_a_fused_group_names_the_joint_and_the_line_at_fault(project, culprit, upstream, wrong):
    chain = {
        **SALES,
        "joints/paid.sql": "SELECT id FROM orders",
        "joints/middle.yaml": "type: sql\nsql: |\n  SELECT *\n  FROM paid\n",
        "joints/totals.sql": "SELECT id\nFROM middle\n-- the last line is a comment",
        "joints/ranked.sql": "SELECT id FROM totals",
    }
    text = f"-- rivet:tags: [x]\n-- rivet:upstream: {upstream}\n\nSELECT\n  {wrong}\nFROM {upstream}"
    error = failure(project({**chain, f"joints/{culprit}.sql": text}).run, "report")
    code = "RVT-520" if "/" in wrong else "RVT-503"
    assert place(error) == (code, culprit, f"joints/{culprit}.sql")
    assert error.diagnostics[0].line == 5


def test_an_error_in_a_yaml_file_has_its_line(project):
    broken = project({
        **SALES, "joints/totals.sql": "SELECT customer, total FROM middle",
        "joints/middle.yaml": "type: sql\nsql: |\n  SELECT customer,\n    nmae(customer) AS total\n  FROM paid\n",
    })  # fmt: skip
    error = failure(broken.run, "report")
    assert place(error) == ("RVT-503", "middle", "joints/middle.yaml")
    assert error.diagnostics[0].line == 4


def test_a_source_whose_transforms_are_wrong_is_named(project):
    wrong = project(
        {
            **SALES,
            "sources/orders.yaml": source(
                "orders", "id INT, customer STRING, amount DECIMAL(10, 2), status STRING", filter="nmae(id) > 1"
            ),
        }
    )
    assert place(failure(wrong.run, "report")) == ("RVT-503", "orders", "sources/orders.yaml")


# Python joints

BASE = {"joints/base.sql": "SELECT id, 'n' || id AS name FROM VALUES (1), (2), (3) AS t (id)"}
EXPECTED = [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}, {"id": 3, "name": "n3"}]


def python(body: str, parameters: str = "base", head: str = "") -> dict[str, str]:
    """Write a project whose joint `made` is a Python function of the SQL joint `base`."""
    return {**BASE, "joints/made.py": f"{head}\n\ndef transform({parameters}):\n    {body}\n"}


@pytest.mark.nightly(but=4)
@pytest.mark.parametrize(
    "body",
    [
        "return base",
        "return base.to_arrow()",
        "return base.to_arrow().combine_chunks().to_batches()[0]",
        "table = base.to_arrow(); return table.to_reader(max_chunksize=1)",
        "return base.to_arrow().to_pandas()",
        "import polars; return polars.from_arrow(base.to_arrow())",
        "import polars; return polars.from_arrow(base.to_arrow()).lazy()",
        "return base.to_spark()",
        "return base.to_spark().where('id > 0').selectExpr('id', 'name')",
    ],
)
def test_a_python_joint_may_return_rows_of_every_supported_type(project, body):
    made = project(python(body))
    results = made.run_all()
    assert made.rows("made", WORKSPACE) == EXPECTED
    assert results["made"].rows.total == 3


@pytest.mark.parametrize(
    ("body", "what"),
    [("return [1, 2]", "a builtins.list"), ("base.to_arrow()", "nothing"), ("return {'id': [1]}", "a builtins.dict")],
)
def test_a_python_joint_that_returns_something_else_is_an_error(project, body, what):
    made = project(python(body))
    made.run("base")
    error = failure(made.run, "made")
    assert place(error) == ("RVT-505", "made", "joints/made.py")
    assert f"returned {what}" in str(error)
    assert made.versions("made", WORKSPACE) == []


def test_a_handle_cannot_be_used_after_the_call(project, monkeypatch):
    monkeypatch.setattr(builtins, "kept_handles", [], raising=False)
    made = project(python("kept_handles.append(base); return base.to_arrow()"))
    made.run_all()
    (handle,) = builtins.kept_handles
    for use in (handle.to_arrow, handle.to_spark, lambda: handle.schema, lambda: handle.row_count):
        error = failure(use)
        assert error.code == "RVT-401"
        assert error.diagnostics[0].joint == "base"


@pytest.mark.parametrize(
    ("head", "body", "line", "words"),
    [
        ("", "raise KeyError('x')", 4, "transform failed: KeyError: 'x'"),
        ("", "import no_such_module", 4, "No module named 'no_such_module'"),
        ("def deeper(rows):\n    return rows.nope", "return deeper(base)", 2, "no attribute 'nope'"),
        ("1 / 0", "return base", 1, "could not be loaded: ZeroDivisionError"),
        ("", "raise SystemExit(3)", 4, "SystemExit: 3"),
    ],
)
def test_an_exception_of_a_python_joint_has_its_file_and_line(project, head, body, line, words):
    made = project(python(body, head=head))
    made.run("base")
    error = failure(made.run, "made")
    assert place(error) == ("RVT-504", "made", "joints/made.py")
    assert error.diagnostics[0].line == line
    assert words in str(error)
    assert made.versions("made", WORKSPACE) == []


def test_a_lazy_frame_that_fails_during_the_write_is_an_error_of_the_python_joint(project):
    made = project(python("return base.to_spark().selectExpr('1 / (id - id) AS x')"))
    made.run("base")
    error = failure(made.run, "made")
    assert place(error) == ("RVT-520", "made", "joints/made.py")
    assert "DIVIDE_BY_ZERO" in str(error)


def test_a_python_joint_reads_several_upstreams_and_modules_of_its_project(project):
    made = project({
        **SALES,
        "shared/rates.py": "RATE = 3\n",
        "joints/made.py": (
            "from __future__ import annotations\n"
            "from dataclasses import dataclass\n"
            "import pyarrow as pa\n"
            "from shared.rates import RATE\n"
            "@dataclass\n"
            "class Row:\n"
            "    customer: str\n"
            "    value: float\n"
            "def transform(totals: MaterializedRef, orders: MaterializedRef, factor: int = 2) -> pa.Table:\n"
            "    known = set(orders.to_arrow()['customer'].to_pylist())\n"
            "    rows = [Row(t['customer'], float(t['total'])) for t in totals.to_arrow().to_pylist()]\n"
            "    rows = [Row(row.customer, row.value * RATE * factor) for row in rows if row.customer in known]\n"
            "    return pa.Table.from_pylist([vars(row) for row in rows])\n"
        ),
        "sinks/report.yaml": sink("report", "made"),
    })  # fmt: skip
    made.write({"joints/ranked.sql": "SELECT 1 AS one"})
    made.run_all()
    assert made.rows("report") == [
        {"customer": None, "value": 18.0},
        {"customer": "ada", "value": 63.0},
        {"customer": "bob", "value": 130.5},
        {"customer": "cyd", "value": 42.0},
    ]


def test_a_python_joint_may_be_declared_separately_from_its_function(project):
    made = project({
        **BASE,
        "shared/makers.py": "def double(rows):\n    return rows.to_spark().selectExpr('id * 2 AS id')\n",
        "joints/made.yaml": {"type": "python", "function": "shared.makers:double", "upstream": "base"},
    })  # fmt: skip
    made.run_all()
    assert made.rows("made", WORKSPACE) == [{"id": 2}, {"id": 4}, {"id": 6}]


def test_a_python_function_runs_inside_of_spark(project):
    udf = "from pyspark.sql.functions import udf; return base.to_spark().select(udf(plus, 'long')('id').alias('id'))"
    made = project(python(udf, head="def plus(n):\n    return n + 10"))
    made.run_all()
    assert made.rows("made", WORKSPACE) == [{"id": 11}, {"id": 12}, {"id": 13}]


def test_an_upstream_that_was_never_materialized_is_named(project):
    eager = {**SALES, "joints/paid.sql": "-- rivet:eager: true\nSELECT * FROM orders"}
    sales = project({**eager, "joints/made.py": "def transform(paid):\n    return paid.to_arrow()\n"})
    for group in ("report", "made"):
        error = failure(sales.run, group)
        assert (error.code, error.diagnostics[0].joint) == ("RVT-401", "paid")
        assert "never been materialized" in str(error)
    assert sales.versions("report") == []


def test_of_two_overlapping_runs_the_one_that_publishes_last_computes_again(project, monkeypatch):
    made = project(python("meanwhile(); return base"))
    made.run("base")
    others = []

    def meanwhile():
        if not others:
            others.append("runs")
            others.append(made.run("made"))

    monkeypatch.setattr(builtins, "meanwhile", meanwhile, raising=False)
    result = made.run("made")
    versions = [others[1].published.version, result.published.version]
    assert made.versions("made", WORKSPACE) == [name for v in versions for name in (v, f"{v}.files.json", f"{v}.json")]
    assert made.rows("made", WORKSPACE) == EXPECTED


# an empty batch


def empty(on_empty: str) -> dict[str, Any]:
    files = {"joints/some.sql": "SELECT * FROM VALUES (1), (2) AS t (id)"}
    return files | {"sinks/out.yaml": sink("out", "some", write_strategy={"mode": "replace", "on_empty": on_empty})}


@pytest.mark.parametrize("on_empty", ["write", "skip", "fail"])
def test_an_empty_batch_is_written_skipped_or_an_error(project, on_empty):
    batch = project(empty(on_empty))
    batch.run("out")
    before = batch.bytes_of("out")
    batch.write({"joints/some.sql": "SELECT * FROM VALUES (1), (2) AS t (id) WHERE id > 2"})
    if on_empty == "fail":
        error = failure(batch.run, "out")
        assert place(error) == ("RVT-508", "out", "sinks/out.yaml")
    else:
        result = batch.run("out")
        assert result.skipped_empty == (on_empty == "skip")
        assert (result.published is None) == (on_empty == "skip")
    if on_empty == "write":
        assert batch.table("out").schema.field("id").type == pa.int32()
        assert (result.rows.deleted, result.rows.total, batch.rows("out")) == (2, 0, [])
    else:
        assert_unchanged(batch, "out", before)


def test_a_batch_with_rows_is_neither_skipped_nor_an_error(project):
    for on_empty in ("skip", "fail"):
        assert project(empty(on_empty)).run("out").rows.total == 2


# a part of a group

BRANCHES = {
    "data/rows.csv": DIRT,
    "sources/rows.yaml": source("rows", "id INT, code STRING, qty INT, name STRING"),
    "joints/left_side.sql": "SELECT id, qty FROM rows WHERE code = 'a'",
    "joints/doubled.sql": "SELECT id, qty * 2 AS qty FROM left_side",
    "joints/right_side.sql": "SELECT id, qty FROM rows WHERE code = 'b'",
    "sinks/out.yaml": sink("out", "doubled", "right_side"),
}


def test_an_inner_joint_selected_alone_is_computed_and_counted_but_not_stored(project, sql_executions):
    branches = project(BRANCHES)
    assert branches.assembly.group("out").joints[-1] == "out"
    result = branches.run("out", ["left_side"])
    assert sql_executions.since() == 1
    assert (result.counted, result.published, result.rows) == ({"left_side": 3}, None, None)
    assert branches.versions("left_side", WORKSPACE) == []
    assert branches.versions("out") == []
    assert not (branches.root / WORKSPACE / "left_side").exists()


def test_two_selected_branches_are_one_query_each_and_a_chain_is_one(project, sql_executions):
    branches = project(BRANCHES)
    assert branches.run("out", ["left_side", "doubled", "right_side"]).counted == {"doubled": 3, "right_side": 2}
    assert sql_executions.since() == 2
    result = branches.run("out", ["right_side", "out"])
    assert sql_executions.since() == 1
    assert (result.counted, result.rows.total) == ({}, 5)


def test_the_exit_selected_alone_is_the_whole_query(project, sql_executions):
    branches = project(BRANCHES)
    result = branches.run("out", ["out"])
    assert sql_executions.since() == 1
    assert (result.counted, result.rows.total) == ({}, 5)
    assert branches.rows("out") == in_order(
        {"id": i, "qty": q} for i, q in [(1, 10), (2, 14), (5, 6), (2, None), (2, 4)]
    )


def test_an_exit_includes_the_branches_that_it_reads(project):
    """A selected joint upstream of another selected one is not an exit."""
    branches = project(BRANCHES)
    result = branches.run("out", ["left_side", "out"])
    assert result.counted == {}
    assert result.rows.total == 5


def test_a_subset_that_fails_leaves_nothing(project):
    branches = project({**BRANCHES, "joints/left_side.sql": "SELECT CAST(name AS INT) AS id, qty FROM rows"})
    error = failure(branches.run, "out", ["left_side"])
    assert error.code == "RVT-520"
    assert branches.versions("left_side", WORKSPACE) == []


# MaterializedRef


def test_a_handle_on_a_stored_joint_reads_the_version_at_its_creation(project, sql_executions):
    sales = project({**SALES, "joints/paid.sql": "-- rivet:eager: true\nSELECT * FROM orders"})
    sales.run("paid")
    ref = reference(sales.runtime, "paid")
    sql_executions.since()
    assert (ref.row_count, ref.schema.names) == (6, ["id", "customer", "amount", "status"])
    first = ref.to_arrow()
    assert sql_executions.since() == 0  # storage has all of it
    sales.write({"data/orders.csv": "id,customer,amount,status\n9,zoe,1,paid\n"})
    sales.run("paid")
    assert ref.to_arrow().equals(first)
    assert ref.row_count == ref.to_spark().count() == 6
    assert reference(sales.runtime, "paid").to_arrow()["id"].to_pylist() == [9]
    sales.run("paid")
    error = failure(ref.to_arrow)
    assert (error.code, error.diagnostics[0].joint) == ("RVT-401", "paid")


def test_a_handle_on_a_source_reads_the_current_file_with_its_transforms(project):
    files = dict(SALES)
    files["sources/orders.yaml"] = source(
        "orders", "id INT, customer STRING, amount DECIMAL(10, 2), status STRING",
        columns=["id", {"cents": "amount * 100"}, "customer", "status", "amount"], filter="status = 'paid'",
    )  # fmt: skip
    sales = project(files)
    ref = reference(sales.runtime, "orders")
    orders = f"read_csv('{sales.root}/data/orders.csv') WHERE status = 'paid'"
    expected = duckdb.sql(f"SELECT id, amount::DECIMAL(10, 2) * 100 FROM {orders}").fetchall()
    assert [(row["id"], row["cents"]) for row in ref.to_arrow().to_pylist()] == expected
    assert ref.schema.field("cents").type == pa.decimal128(14, 2)
    assert ref.row_count == ref.to_spark().count() == len(expected)
    assert ref.to_arrow().equals(ref.to_arrow())


def test_a_handle_on_a_fused_joint_is_a_view_on_the_current_sources(project):
    sales = project(SALES)
    ref = reference(sales.runtime, "totals")  # nothing has run
    assert ref.schema.names == ["customer", "total", "n"]
    assert {row["customer"]: row["n"] for row in ref.to_arrow().to_pylist()} == {"ada": 1, "bob": 2, "cyd": 1, None: 1}
    assert ref.row_count == 4
    sales.write({"data/orders.csv": "id,customer,amount,status\n1,zoe,1,paid\n2,zoe,2,paid\n"})
    again = reference(sales.runtime, "totals")
    assert [(row["customer"], row["n"]) for row in again.to_arrow().to_pylist()] == [("zoe", 2)]
    assert [tuple(row) for row in again.to_spark().select("customer", "n").collect()] == [("zoe", 2)]
    assert sales.versions("totals", WORKSPACE) == []


def test_a_handle_reads_nothing_until_it_is_used(project, sql_executions):
    sales = project({**SALES, "joints/made.py": "def transform(orders):\n    return orders\n"})
    (sales.root / "data/orders.csv").unlink()
    for name, code in (("orders", "RVT-403"), ("totals", "RVT-403"), ("report", "RVT-401"), ("made", "RVT-401")):
        ref = reference(sales.runtime, name)
        assert repr(ref) == f"MaterializedRef('{name}')"
        for use in (ref.to_arrow, ref.to_spark, lambda ref=ref: ref.schema, lambda ref=ref: ref.row_count):
            assert failure(use).code == code
    assert sql_executions.since() == 0


def test_a_group_has_settings_of_its_own(project):
    zone = "SELECT current_timezone() AS zone"
    there = project(
        {
            "joints/tokyo.sql": "-- rivet:options: {config: {spark.sql.session.timeZone: Asia/Tokyo}}\n" + zone,
            "joints/usual.sql": zone,
            "joints/wrong.sql": "-- rivet:options: {config: {spark.sql.shufle.partitions: 3}}\n" + zone,
        }
    )
    zones = {}
    for name in ("tokyo", "usual"):
        there.run(name)
        zones[name] = reference(there.runtime, name).to_arrow().to_pylist()
    assert zones == {"tokyo": [{"zone": "Asia/Tokyo"}], "usual": [{"zone": "Europe/Berlin"}]}
    error = failure(there.run, "wrong")
    assert place(error) == ("RVT-204", "wrong", "joints/wrong.sql")
    assert "spark.sql.shufle.partitions" in str(error)
