"""Row checks are judged while the rows are written; where that proves nothing, the written rows are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, sink, source
from support.iceberg import need_iceberg
from support.iceberg_folders import IcebergFolder
from support.random_expressions import COLUMNS, ROWS, condition

from rivet_dagster.engines.contract import Observed
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.sql.row_errors.observable import observable_condition
from rivet_dagster.sql.trees import as_written

CHECKS = (
    {"type": "expression", "name": "sign", "sql": "net + 1.5D > tax"},
    {"type": "accepted_values", "name": "code", "column": "code", "values": ["a", "b"]},
    {"type": "not_null", "name": "id", "columns": ["id"]},
)
GOOD = "id,code,net,tax\n1,a,1.5,1\n2,b,2.5,1\n3,a,3.5,1\n"
BAD = "id,code,net,tax\n1,a,1.5,1\n2,x,2.5,1\n3,a,0.5,2\n"
PASSED = {"sign": (True, 0), "code": (True, 0), "id": (True, 0)}
FAILED = {"sign": (False, 1), "code": (False, 1), "id": (True, 0)}

FILES = {
    "data/rows.csv": GOOD,
    "sources/rows.yaml": source("rows", "id INT, code STRING, net DOUBLE, tax DOUBLE"),
}
WRITES: dict[str, tuple[dict[str, Any], int]] = {
    "replace": ({}, 1),
    "append": ({"write_strategy": "append"}, 1),
    "merge": ({"write_strategy": {"mode": "merge", "key_columns": ["id"]}}, 2),
}
"""The fields of a sink, and the queries of Spark for a second run without checks."""


def verdicts(folder: ProjectFolder) -> dict[str, tuple[bool, int | None]]:
    return {result.check.name: (result.passed, result.violations) for result in folder.run("out").checks}


def gated(checks: Iterable[dict[str, Any]] = CHECKS, **fields: Any) -> dict[str, Any]:
    return sink("out", "rows", assertions=checks, **fields)


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("write", WRITES)
def test_a_gate_that_passes_is_no_query_of_its_own(project, sql_executions, write):
    fields, queries = WRITES[write]
    folder = project({**FILES, "sinks/out.yaml": gated(**fields)})
    folder.run("out")
    sql_executions.since()
    assert verdicts(folder) == PASSED
    assert sql_executions.since() == queries
    before = folder.bytes_of("out")
    folder.write({"data/rows.csv": BAD})
    assert verdicts(folder) == FAILED
    assert folder.bytes_of("out") == before


def test_nulls_of_columns_of_all_types_are_counted_by_footers(project, sql_executions):
    values = {
        "at": "TIMESTAMP '2020-01-01 00:00:00'",
        "at_ntz": "TIMESTAMP_NTZ '2020-01-01 00:00:00'",
        "net": "CAST(1.5 AS DECIMAL(20, 2))",
        "short": "'x'",
        "day": "DATE '2020-01-01'",
        "single": "1.5F",
        "flag": "true",
        "bytes": "X'00'",
    }
    items = ", ".join(f"IF(id = 2 AND tax > 1, NULL, {sql}) AS {name}" for name, sql in values.items())
    checks = [
        {"type": "not_null", "name": name, "columns": [name], "severity": "warn", "samples": 0} for name in values
    ]
    files = {
        "joints/typed.sql": f"SELECT id, {items} FROM rows",
        "sinks/out.yaml": sink("out", "typed", assertions=checks),
    }
    folder = project({**FILES, **files})
    sql_executions.since()
    assert verdicts(folder) == dict.fromkeys(values, (True, 0))
    assert sql_executions.since() == 1
    folder.write({"data/rows.csv": GOOD.replace("2,b,2.5,1", "2,b,2.5,2")})
    sql_executions.since()
    assert verdicts(folder) == dict.fromkeys(values, (False, 1))
    assert sql_executions.since() == 1


def test_the_branch_of_an_iceberg_table_needs_no_query_either(application, sql_executions, tmp_path):
    need_iceberg()
    folder = IcebergFolder(tmp_path / "project", {**FILES, "sinks/out.yaml": gated()})
    for _ in range(2):  # the first time the table is made
        sql_executions.since()
        assert verdicts(folder) == PASSED
        assert sql_executions.since() == 1
    folder.write({"data/rows.csv": BAD})
    assert verdicts(folder) == FAILED


def test_rows_that_quarantine_leaves_are_judged_while_they_are_written(project, sql_executions):
    joint = "-- rivet:on_error: quarantine\nSELECT id, code, CAST(net AS INT) AS net, tax FROM rows"
    files = {**FILES, "sources/rows.yaml": source("rows", "id INT, code STRING, net STRING, tax DOUBLE")}
    checks = [{"type": "expression", "name": "sign", "sql": "net + 0.5D < tax + 9"}, *CHECKS[1:]]
    out = sink("out", "clean", assertions=checks, on_error="quarantine")
    folder = project(
        {**files, "data/rows.csv": GOOD.replace("1.5", "1"), "joints/clean.sql": joint, "sinks/out.yaml": out}
    )
    result = folder.run("out")
    by_name = {check.check.name: check.passed for check in result.checks}
    assert by_name == {"sign": True, "code": True, "id": True, "evaluation_errors": False}
    assert folder.table("out").column("id").to_pylist() == [1]


Result = Sequence[int | None]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda counts: [None if rows is None else rows + 1 for rows in counts],
        lambda counts: [None if rows is None else rows - 1 for rows in counts],
        lambda counts: [None if rows is None else 2 * rows for rows in counts],
        lambda counts: [],
    ],
    ids=["one too many", "one too few", "twice", "lost"],
)
def test_a_count_of_other_rows_than_were_written_proves_nothing(project, sql_executions, monkeypatch, wrong):
    miscount(monkeypatch, wrong)
    folder = project({**FILES, "sinks/out.yaml": gated()})
    assert verdicts(folder) == PASSED
    assert sql_executions.since() == 2
    folder.write({"data/rows.csv": BAD})
    assert verdicts(folder) == FAILED


def miscount(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Result], Result]) -> None:
    """Have observations of all sessions give other counts."""
    observe = PySparkSession.observe

    def observed(self: PySparkSession, frame: Any, conditions: Sequence[str]) -> Observed | None:
        right = observe(self, frame, conditions)
        assert right is not None
        return replace(right, result=lambda: wrong(right.result() or pytest.fail("nothing was counted")))

    monkeypatch.setattr(PySparkSession, "observe", observed)


def test_a_count_that_spark_loses_is_waited_for_a_while(project, sql_executions, monkeypatch):
    monkeypatch.setattr("rivet_dagster.engines.pyspark.launch._LISTENING_SECONDS", 0.2)
    monkeypatch.setattr("pyspark.sql.Observation._on", lambda self, frame, *counts: lost(self, frame, counts))
    folder = project({**FILES, "sinks/out.yaml": gated()})
    assert verdicts(folder) == PASSED
    assert sql_executions.since() == 2


def lost(observation: Any, frame: Any, counts: Any) -> Any:
    """Make an observation that Spark never tells anything, as where its listeners fall behind."""
    observation._jvm = frame._sc._jvm
    observation._jo = observation._jvm.org.apache.spark.sql.Observation()
    return frame


def test_values_that_are_stored_otherwise_are_read(project, sql_executions):
    check = {"type": "expression", "name": "after", "sql": "date_trunc('SECOND', at) <> at"}
    joint = {
        "type": "sql",
        "sql": "SELECT id, TIMESTAMP '2020-01-01 00:00:00.000001' AS at FROM rows",
        "catalog": "lake",
        "table": "out",
        "options": {"config": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}},
        "quality": {"assertions": [check]},
    }
    folder = project({**FILES, "joints/out.yaml": joint})
    assert verdicts(folder) == {"after": (False, 3)}


CONDITIONS = {
    "net >= 0": True,
    "code <> 'x'": True,
    "length(code) = 1 AND upper(code) <> code": True,
    "code LIKE 'a%' OR net BETWEEN tax AND 9": True,
    "code IN ('a', 'b') AND id IS NOT NULL": True,
    "code > 0": True,  # a cast of texts to numbers: not evaluated in the write
    "net / tax > 1": False,
    "CAST(code AS INT) > 0": True,  # neither
    "my_function(code)": False,
    "id IN (SELECT 1)": False,
    "rand() < 2": False,
    "net < 9 AND current_date() > DATE '2020-01-01'": False,
    "count(*) > 0": False,
}


@pytest.mark.parametrize("sql", CONDITIONS)
def test_conditions_that_cannot_fail_are_observed(sql):
    observable = observable_condition(as_written(f"NOT ({sql})"), {})
    assert (observable is not None) == CONDITIONS[sql]


def test_a_check_that_cannot_be_evaluated_fails_alone_and_the_write_does_not(project):
    texts = ("code > 0", "code > array(1)", "CAST(code AS INT) > 0")
    wrong = [{"type": "expression", "name": f"wrong_{n}", "sql": sql} for n, sql in enumerate(texts)]
    folder = project({**FILES, "sinks/out.yaml": gated([*CHECKS, *wrong])})
    results = {result.check.name: result for result in folder.run("out").checks}
    assert {name for name, result in results.items() if result.passed} == {"sign", "code", "id"}
    assert all(results[check["name"]].error for check in wrong)


@pytest.mark.parametrize("first", [0, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_no_row_that_violates_a_random_condition_or_cannot_be_judged_is_missed(session, tmp_path: Path, first: int):
    """All conditions are observed in one write, and evaluated by queries of one row each."""
    rows = session.spark.sql(f"SELECT * FROM VALUES {', '.join(ROWS)} AS t({COLUMNS})").coalesce(1)
    session.register("t", rows)
    number = 60 if first == 0 else 1_500
    texts = [f"NOT ({condition(random.Random(seed), seed % 3)})" for seed in range(first, first + number)]
    observable = {text: each for text in texts if (each := observable_condition(as_written(text), {})) is not None}
    analyzed = {text: each.sql for text, each in observable.items() if session.observe(rows, [each.sql]) is not None}
    observed = session.observe(rows, list(analyzed.values()))
    session.write(observed.frame, Files("parquet", (str(tmp_path / "t"),)))
    assert pq.read_table(tmp_path / "t").num_rows == len(ROWS)
    counted = dict(zip(analyzed, observed.result(), strict=True))
    assert {rows for rows in counted.values() if rows is not None} == {len(ROWS)}
    passed = [text for text, rows in counted.items() if rows is not None]
    for text in passed:
        assert not any(is_bad(session, text, row) for row in range(1, len(ROWS) + 1)), text
    failed = [text for text in analyzed if text not in passed]
    assert len(failed) > number / 10
    assert len(passed) > number / 100


def is_bad(session: PySparkSession, sql: str, row: int) -> bool:
    """Return whether a condition is true for a row, or raises an error."""
    try:
        return bool(session.rows(f"SELECT 1 AS one FROM t WHERE id = {row} AND {sql}"))
    except RivetError:
        return True
