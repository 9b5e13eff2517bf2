"""Checks that share a query: what one that cannot run costs the others."""

from collections.abc import Sequence
from contextlib import closing

import pytest
from support.duckdb_engine import DuckDBEngine
from support.folders import ProjectFolder, sink

from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.verdicts import judge
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.model.profile import EngineSpec

UNKNOWN, FAILING = "no_such_column >= 0", "CAST(concat('x', CAST(id AS STRING)) AS INT) >= 0"


class Counting:
    """A session that counts the queries it runs."""

    def __init__(self, session: EngineSession) -> None:
        self.session = session
        self.runs = 0

    def __getattr__(self, name):
        return getattr(self.session, name)

    def rows(self, *arguments):
        self.runs += 1
        return self.session.rows(*arguments)


def judged(
    folder, number: int, wrong: Sequence[str], session_type: type = Counting
) -> tuple[int, tuple[CheckResult, ...]]:
    """Return how many queries judged ``number`` good expressions with the wrong ones among them, and the results."""
    checks = [{"type": "expression", "sql": f"id >= {-n}", "name": f"good_{n}"} for n in range(number)]
    for n, sql in enumerate(wrong):
        checks.insert(number // 2 + n, {"type": "expression", "sql": sql, "name": f"wrong_{n}"})
    rows = {"type": "source", "catalog": "raw", "table": "rows"}  # of unknown columns
    files = {"sources/rows.yaml": rows, "sinks/out.yaml": sink("out", "rows", assertions=checks)}
    compiled = ProjectFolder(folder / f"{number}", files).assembly.joint("out").checks
    with closing(DuckDBEngine(EngineSpec("duck", "duckdb")).session()) as session:
        session.register("out", session.query("SELECT 1 AS id UNION ALL SELECT 2"))
        counting = session_type(session)
        results = judge("out", compiled, counting, None, lambda name: pytest.fail(name))
    return counting.runs, results


@pytest.mark.slow
@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("wrong", "few", "many"),
    [
        ((), 1, 1),
        ((UNKNOWN,), 3, 3),  # all, all but that one, that one by itself
        ((UNKNOWN, UNKNOWN), 4, 4),
        ((FAILING,), 8, 16),  # all, two of each halving, that one by itself
        ((FAILING,) * 100, 140, 240),
        ((FAILING, UNKNOWN), 10, 18),
    ],
)
def test_checks_that_cannot_run_cost_few_queries(tmp_path, wrong, few, many):
    for number, most in ((15, few), (240, many)):
        runs, results = judged(tmp_path, number, wrong)
        assert runs <= most
        failed = {result.check.name for result in results if not result.passed}
        assert failed == {f"wrong_{n}" for n in range(len(wrong))}
        assert all((result.error is not None) == (result.check.name in failed) for result in results)
        assert [result.check.name for result in results].index("good_0") == 0


def test_an_engine_that_has_died_is_not_asked_for_each_half(tmp_path):
    class Dead(Counting):
        def rows(self, *arguments):
            super().rows(*arguments)
            raise RivetError("RVT-502", "the server has died")

    runs, results = judged(tmp_path, 15, [], Dead)
    assert runs == 16
    assert {result.error for result in results} == {"the server has died"}


def test_the_engine_cuts_long_texts_of_samples(tmp_path):
    check = {"type": "not_null", "columns": ["other"]}
    files = {
        "sources/rows.yaml": {"type": "source", "catalog": "raw", "table": "rows"},
        "sinks/out.yaml": sink("out", "rows", assertions=[check]),
    }
    (compiled,) = ProjectFolder(tmp_path, files).assembly.joint("out").checks
    with closing(DuckDBEngine(EngineSpec("duck", "duckdb")).session()) as session:
        rows = "SELECT repeat('x', 50000) AS long, 7 AS id, CAST(NULL AS INT) AS other"
        session.register("out", session.query(rows))
        (result,) = judge("out", [compiled], session, None, lambda name: pytest.fail(name))
    assert result.samples == ({"long": "x" * 10_000, "id": 7, "other": None},)
