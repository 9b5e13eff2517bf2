"""Tests of a project, run by Spark: what passes, what fails and what is an error, and that nothing else is read."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import PROFILES, Files, ProjectFolder, sink, source

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.project_tests.parsing import read_tests
from rivet_dagster.project_tests.results import TestResult, explanation
from rivet_dagster.project_tests.running import Runner, run_tests

INCREMENTAL = """SELECT id, at FROM events
{% if is_incremental() %}WHERE at > {{ watermark_value }} AND id NOT IN (SELECT id FROM {{ this }}){% endif %}
"""
PYTHON = """import pyarrow as pa

def transform(orders):
    table = orders.to_arrow()
    if not table.num_rows:
        raise ValueError("no orders at all")
    return table.append_column("double", pa.array([2 * v for v in table["amount"].to_pylist()], pa.float64()))
"""
EVERYTHING = """SELECT *, double = 2 * amount AS right FROM doubled"""
PROJECT: Files = {
    "sources/orders.yaml": source("orders.csv", "id INT, customer STRING, amount DOUBLE, state STRING"),
    "sources/events.yaml": source("events.csv", "id BIGINT, at TIMESTAMP, note STRING"),
    "sources/loose.yaml": {"type": "source", "catalog": "raw", "table": "loose.csv"},
    "sources/wide.yaml": source("wide.csv", "id INT, a STRING, b STRING"),
    "joints/paid.sql": "-- rivet:assert: not_null(customer)\n-- rivet:assert: row_count(min=1, severity=warn)\n"
    "SELECT customer, amount FROM orders WHERE state = 'paid'",
    "joints/revenue.sql": "SELECT customer, sum(amount) AS revenue FROM paid GROUP BY customer",
    "joints/ranked.sql": "SELECT customer FROM paid ORDER BY amount DESC",
    "joints/passed_on.sql": "SELECT * FROM wide",
    "joints/divided.sql": "SELECT id,\n  1 / id AS part\nFROM wide",
    "joints/unknown_column.sql": "SELECT id\n, nothing_like_it FROM loose",
    "joints/seen.sql": INCREMENTAL,
    "sinks/seen_rows.yaml": sink(
        "seen_rows", "seen", write_strategy={"mode": "merge", "key_columns": "id", "watermark_column": "at"}
    ),
    "joints/doubled.py": PYTHON,
    "joints/checked.sql": EVERYTHING,
    "joints/with_customers.sql": "-- rivet:assert: relationship(column=customer, to=orders.customer)\n"
    "SELECT customer FROM paid",
    "joints/good.sql": "-- rivet:on_error: quarantine\n-- rivet:eager: true\nSELECT id, 10 / id AS part FROM wide",
    "joints/dated.sql": "-- rivet:options: {config: {spark.sql.ansi.enabled: false}}\n-- rivet:eager: true\n"
    "SELECT CAST(a AS INT) AS n FROM wide",
    "sinks/everybody.yaml": sink("everybody", "paid", "shop"),
    "joints/shop.sql": "SELECT 1.0D AS amount, customer FROM orders WHERE state = 'shop'",
}


class Tests(ProjectFolder):
    """A project with tests."""

    __test__ = False

    runner: Runner

    def results(self, text: str = "", **files: str) -> dict[str, TestResult]:
        """Write a file of tests, and return the results of all tests by name."""
        if text:
            self.write({"tests/a.test.yaml": text})
        results = run_tests(read_tests(self.root), self.assembly, self.root, self.runner)
        return {result.name: result for result in results}

    def result(self, text: str) -> TestResult:
        """Write a file with one test, and return its result."""
        (result,) = self.results(text).values()
        return result


@pytest.fixture
def tests(tmp_path: Path, engine: PySparkEngine) -> Iterator[Callable[[Files], Tests]]:
    runner = None

    def made(files: Files) -> Tests:
        nonlocal runner
        project = Tests(tmp_path / "project", {**PROJECT, **files})
        project.runner = runner = Runner(engine, project.root)
        return project

    yield made
    if runner is not None:
        runner.close()


def statuses(results: dict[str, TestResult]) -> dict[str, str]:
    return {name: result.status for name, result in results.items()}


PASSING = """
name: of_a_joint
target: revenue
inputs: {paid: {rows: [{customer: ann, amount: 1.5}, {customer: ann, amount: 2}, {customer: bob, amount: null}]}}
expected: {rows: [{customer: bob, revenue: null}, {customer: ann, revenue: 3.5}]}
---
name: of_a_graph
target: revenue
scope: graph
inputs: {orders: {columns: [customer, amount, state], rows: [[ann, 3, paid], [bob, 4, open]]}}
expected: {columns: [revenue, customer], rows: [[3.0, ann]]}
---
name: extended
extends: of_a_graph
inputs: {orders: {rows: [{customer: eve, amount: 1, state: paid}]}}
expected: {rows: [{customer: eve, revenue: 1}]}
---
name: nothing
target: revenue
inputs: {paid: {rows: []}}
expected: {rows: []}
---
name: in_order
target: ranked
inputs: {paid: {rows: [{customer: a, amount: 1}, {customer: b, amount: 3}, {customer: c, amount: 2}]}}
compare: exact
expected: {rows: [{customer: b}, {customer: c}, {customer: a}]}
---
name: types
target: revenue
inputs: {paid: {rows: [], schema: 'customer STRING, amount DECIMAL(4,1)'}}
compare: schema_only
expected: {schema: 'revenue DECIMAL(14,1), customer STRING'}
---
name: within_tolerance
target: revenue
inputs: {paid: {rows: [{customer: a, amount: 0.1}, {customer: a, amount: 0.2}]}}
tolerance: 0.001
expected: {rows: [{customer: a, revenue: 0.3}]}
---
name: ignored
target: revenue
inputs: {paid: {rows: [{customer: a, amount: 0.1}]}}
options: {ignore_columns: [REVENUE]}
expected: {rows: [{customer: a}]}
---
name: a_union
target: everybody
inputs:
  paid: {rows: [{customer: ann, amount: 1}]}
  shop: {rows: [{customer: bob, amount: 2}]}
expected: {rows: [{customer: ann, amount: 1}, {customer: bob, amount: 2}]}
---
name: a_union_of_a_graph
target: everybody
scope: graph
inputs: {orders: {rows: [{customer: ann, amount: 1, state: paid}, {customer: bob, amount: 9, state: shop}]}}
expected: {rows: [{customer: ann, amount: 1}, {customer: bob, amount: 1}]}
---
name: python
target: doubled
inputs: {orders: {rows: [{id: 1, amount: 2.5}]}}
expected: {rows: [{id: 1, customer: null, amount: 2.5, state: null, double: 5}]}
---
name: through_python
target: checked
scope: graph
inputs: {orders: {rows: [{id: 1, amount: 2.5}]}}
options: {ignore_columns: [customer, state, id]}
expected: {rows: [{amount: 2.5, double: 5, right: true}]}
---
name: python_raises
target: checked
scope: graph
inputs: {orders: {rows: []}}
error: no orders at all
---
name: divided_by_zero
target: divided
inputs: {wide: {rows: [{id: 0}]}}
error: DIVIDE_BY_ZERO
---
name: divided_by_zero_by_code
extends: divided_by_zero
error: RVT-520
---
name: unknown
target: unknown_column
inputs: {loose: {rows: [{id: 1}]}}
error: UNRESOLVED_COLUMN
---
name: quarantined
target: good
inputs: {wide: {rows: [{id: 0}, {id: 2}]}}
expected: {rows: [{id: 2, part: 5.0}]}
checks: {evaluation_errors: warned}
---
name: without_ansi
target: dated
inputs: {wide: {rows: [{a: '7'}, {a: x}]}}
expected: {rows: [{n: 7}, {n: null}]}
---
name: gates
target: paid
inputs: {orders: {rows: [{customer: null, state: paid}]}}
checks: {not_null_customer: failed, row_count: passed}
---
name: gates_that_warn
target: paid
inputs: {orders: {rows: []}}
checks: {not_null_customer: passed, row_count: warned}
---
name: reads_another
target: with_customers
inputs:
  paid: {rows: [{customer: a}, {customer: b}]}
  orders: {rows: [{customer: a}]}
checks: {relationship_customer: failed}
---
name: first_run
target: seen
inputs: {events: {rows: [{id: 1, at: '2026-01-01'}]}}
expected: {rows: [{id: 1, at: '2026-01-01 00:00:00'}]}
---
name: later_run
target: seen
inputs:
  events: {rows: [{id: 1, at: '2026-01-01'}, {id: 2, at: '2026-01-02T00:00:00Z'}, {id: 3, at: '2026-01-03'}]}
incremental: {watermark: '2026-01-01 12:00:00', this: {rows: [{id: 3}]}}
expected: {rows: [{id: 2, at: '2026-01-02 01:00:00'}]}
---
name: no_watermark_is_everything
extends: later_run
incremental: {watermark: null}
expected: {rows: [{id: 1, at: '2026-01-01'}, {id: 2, at: '2026-01-02 01:00'}, {id: 3, at: '2026-01-03'}]}
"""


def test_what_is_as_expected_passes(tests):
    results = tests({}).results(PASSING)
    assert {name: result.message for name, result in results.items() if result.status != "passed"} == {}
    assert len(results) == PASSING.count("target:") + PASSING.count("extends:")


FAILING = """
name: a_row_is_missing_one_is_unexpected
target: revenue
inputs: {paid: {rows: [{customer: ann, amount: 1}, {customer: bob, amount: 5}, {customer: bob, amount: 1}]}}
expected: {rows: [{customer: ann, revenue: 2}, {customer: bob, revenue: 6}, {customer: eve, revenue: 3}]}
---
name: duplicates_count
target: passed_on
inputs: {wide: {rows: [{id: 1}, {id: 1}, {id: 2}]}}
options: {ignore_columns: [a, b]}
expected: {rows: [{id: 1}, {id: 2}, {id: 2}]}
---
name: another_order
target: ranked
inputs: {paid: {rows: [{customer: a, amount: 1}, {customer: b, amount: 3}]}}
compare: exact
expected: {rows: [{customer: a}, {customer: b}]}
---
name: another_type
target: revenue
inputs: {paid: {rows: []}}
compare: schema_only
expected: {schema: 'customer STRING, revenue DECIMAL(10,2), more INT'}
---
name: outside_of_the_tolerance
target: revenue
inputs: {paid: {rows: [{customer: a, amount: 0.3}]}}
tolerance: 0.001
expected: {rows: [{customer: a, revenue: 0.302}]}
---
name: no_error
target: divided
inputs: {wide: {rows: [{id: 1}]}}
error: DIVIDE_BY_ZERO
---
name: another_error
target: divided
inputs: {wide: {rows: [{id: 0}]}}
error: CAST_INVALID_INPUT
---
name: another_verdict
target: paid
inputs: {orders: {rows: [{customer: null, state: paid}]}}
checks: {not_null_customer: passed}
---
name: no_error_of_evaluation
target: good
inputs: {wide: {rows: [{id: 0}, {id: 2}, {id: 0}]}}
checks: {evaluation_errors: passed}
---
name: rows_where_none_are_expected
target: paid
inputs: {orders: {rows: [{customer: a, state: paid}]}}
expected: {rows: []}
---
name: rows_where_none_of_these_columns_are_expected
target: revenue
inputs: {paid: {rows: [{customer: a, amount: 1}]}}
expected: {rows: [], schema: 'customer STRING, revenue DOUBLE'}
"""


def test_what_is_not_as_expected_fails_and_says_why(tests):
    results = tests({}).results(FAILING)
    assert set(statuses(results).values()) == {"failed"}
    rows = results["a_row_is_missing_one_is_unexpected"].difference
    assert rows.missing == ({"customer": "ann", "revenue": 2.0}, {"customer": "eve", "revenue": 3.0})
    assert rows.unexpected == ({"customer": "ann", "revenue": 1.0},)
    assert [pair.columns for pair in rows.near] == [("revenue",)]
    duplicates = results["duplicates_count"].difference
    assert (duplicates.missing, duplicates.unexpected) == (({"id": 2},), ({"id": 1},))
    assert "in another order, from row 1 on" in results["another_order"].message
    schema = results["another_type"].to_dict()["diff"]["schema"]
    assert schema == [
        {"column": "revenue", "expected": "decimal(10,2)", "actual": "double"},
        {"column": "more", "expected": "int", "actual": None},
    ]
    assert results["outside_of_the_tolerance"].difference.unexpected == ({"customer": "a", "revenue": 0.3},)
    assert results["no_error"].message == "the error DIVIDE_BY_ZERO was expected, and 'divided' has 1 row"
    assert "another one was raised: RVT-520 joints/divided.sql:" in results["another_error"].message
    assert "failed, and was expected to have passed, violations: 1" in results["another_verdict"].message
    assert "violations: 2" in results["no_error_of_evaluation"].message
    assert len(results["rows_where_none_are_expected"].difference.unexpected) == 1
    unexpected = results["rows_where_none_of_these_columns_are_expected"].difference.unexpected
    assert unexpected == ({"customer": "a", "revenue": 1.0},)
    assert "  - eve       3.0      missing" in explanation(results["a_row_is_missing_one_is_unexpected"])


ERRORS = """
name: of_spark
target: divided
inputs: {wide: {rows: [{id: 0}]}}
expected: {rows: []}
---
name: of_the_text
target: unknown_column
inputs: {loose: {rows: [{id: 1}]}}
expected: {rows: []}
---
name: of_python
target: doubled
inputs: {orders: {rows: []}}
expected: {rows: []}
---
name: unnamed_column
target: revenue
inputs: {paid: {rows: [{customer: a}]}}
expected: {rows: [{customer: a}]}
---
name: fine
target: revenue
inputs: {paid: {rows: [{customer: a}]}}
expected: {rows: [{customer: a, revenue: null}]}
"""


def test_an_error_stands_at_its_joint_and_line_and_the_others_run(tests):
    results = tests({}).results(ERRORS)
    assert statuses(results) == {**dict.fromkeys(results, "error"), "fine": "passed"}
    assert "DIVIDE_BY_ZERO" in results["of_spark"].message
    assert "joints/divided.sql:2" in results["of_spark"].message
    assert "joints/unknown_column.sql:2: joint unknown_column: [UNRESOLVED_COLUMN" in results["of_the_text"].message
    assert "joints/doubled.py:6: joint doubled" in results["of_python"].message
    assert "tests/a.test.yaml:20: `expected` does not name the column revenue" in results["unnamed_column"].message


TYPES = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "BIGINT": [2**63 - 1, -1],
    "FLOAT": [0.1, ".nan", ".inf"],
    "DOUBLE": [0.1, ".nan", "-.inf"],
    "DECIMAL(38,10)": ["'1234567890123456789012345678.0000000001'", "1.5"],
    "STRING": ["'it''s \\ \"quoted\"'", "''", "'a:b'"],
    "BINARY": ["'abc'", "''"],
    "DATE": ["'2026-01-31'", "'0001-01-01'"],
    "TIMESTAMP": ["'2026-03-29 01:30:00.123456'", "'2026-07-01T00:00:00Z'"],
    "TIMESTAMP_NTZ": ["'2026-03-29 02:30:00'"],
    "ARRAY<INT>": ["[1, null]", "[]"],
    "ARRAY<DOUBLE>": ["[.nan]"],
    "MAP<STRING, ARRAY<DATE>>": ["{a: ['2026-01-01']}", "{}"],
    "STRUCT<x: INT, `a b`: STRUCT<y: DECIMAL(4,1)>>": ["{x: 1, a b: {y: 2.5}}", "{x: null, a b: null}"],
}


def test_values_of_all_types_come_through_spark(tests):
    documents = []
    for number, (type_, values) in enumerate(TYPES.items()):
        shown = [str(v).lower() if isinstance(v, bool) else v for v in [*values, "null"]]
        rows = ", ".join(f"[{n}, {value}]" for n, value in enumerate(shown))
        documents.append(
            f"name: type_{number}\ntarget: passed_on\n"
            f"inputs: {{wide: {{columns: [n, v], rows: [{rows}], schema: 'n INT, v {type_}'}}}}\n"
            f"expected: {{columns: [n, v], rows: [{rows}], schema: 'n INT, v {type_}'}}\n"
            f"---\nname: other_{number}\nextends: type_{number}\n"
            f"expected: {{columns: [n, v], rows: [[0, null]], schema: 'n INT, v {type_}'}}\n"
        )
    results = tests({}).results("---\n".join(documents))
    assert {n: r.message for n, r in results.items() if n.startswith("type") and r.status != "passed"} == {}
    assert {r.status for n, r in results.items() if n.startswith("other")} == {"failed"}


def test_a_file_gives_rows(tests):
    project = tests({"tests/fixtures/orders.csv": 'customer,amount\nann,1.5\n"",2\n,3\n'})
    frame = pa.table({"customer": ["ann", "", None], "revenue": pa.array([1.5, 2, 3], pa.float64())})
    pq.write_table(frame, project.root / "tests/fixtures/expected.parquet")
    result = project.result(
        "target: revenue\ninputs: {paid: {file: fixtures/orders.csv}}\nexpected: {file: fixtures/expected.parquet}\n"
    )
    assert (result.status, result.message) == ("passed", None)


def test_many_tests_are_few_queries_of_spark(tests, sql_executions):
    project = tests({})
    document = "target: revenue\ninputs: {{paid: {{rows: [{{customer: c{0}, amount: {0}}}]}}}}\n"
    document += "expected: {{rows: [{{customer: c{0}, revenue: {0}}}]}}\n"
    project.runner.run([], project.assembly)
    sql_executions.since()
    results = project.results("---\n".join(document.format(n) for n in range(50)))
    assert set(statuses(results).values()) == {"passed"}
    assert sql_executions.since() <= 2


def test_no_catalog_is_contacted_and_nothing_is_written(tests, monkeypatch):
    project = tests({"profiles.yaml": PROFILES})
    project.write({"tests/a.test.yaml": PASSING})
    before = {path for path in project.root.rglob("*") if ".rivet" not in path.parts}

    def opened(*_):
        raise AssertionError("a catalog was opened")

    assembly = project.assembly
    monkeypatch.setattr("rivet_dagster.catalogs.registry.open_catalog", opened)
    monkeypatch.setattr("rivet_dagster.execution.runtime.open_catalog", opened)
    results = run_tests(read_tests(project.root), assembly, project.root, project.runner)
    assert {result.status for result in results} == {"passed"}
    after = {path for path in project.root.rglob("*") if not {".rivet", "__pycache__"} & set(path.parts)}
    assert after == before


PAGE = (Path(__file__).parents[2] / "docs/tests.md").read_text()


def test_the_example_of_the_documentation(tests):
    project = tests(dict(re.findall(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)))
    results = project.results()
    shown = re.findall(r"^passed  (\w+) +(tests/revenue.test.yaml):(\d+)$", PAGE, re.MULTILINE)
    assert [(r.name, r.file, str(r.line)) for r in results.values()] == shown
    assert set(statuses(results).values()) == {"passed"}
    joint = project.root / "joints/paid_orders.sql"
    project.write({"joints/paid_orders.sql": joint.read_text().replace("= 'paid'", "!= 'open'")})
    assert "failed  refunds_are_left_out" in PAGE
    failed = project.results()["refunds_are_left_out"]
    assert textwrap.indent(explanation(failed), 8 * " ") in PAGE
