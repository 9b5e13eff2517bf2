"""The cases of scd2 without a JVM: the Python model and the queries give the history written by hand."""

import pytest
from support.scd2_cases import CASES_CLOSING, CASES_OPEN, CLOSING, OPEN, TYPES, of_case, played, started_at
from support.scd2_runs import DuckDb, Runs

CASES = [(OPEN, case) for case in CASES_OPEN] + [(CLOSING, case) for case in CASES_CLOSING]
CASE = pytest.mark.parametrize(("strategy", "case"), CASES, ids=[case.name for _, case in CASES])


@CASE
def test_the_model(strategy, case):
    history, before = [], []
    for run in range(len(case.runs)):
        history, before = strategy.run(history, case.batch(run), started_at(run)), history
    assert sorted(history, key=lambda row: row["valid_from"]) == case.expected()
    assert strategy.difference(before, history) == case.changed


@CASE
def test_the_queries(strategy, case):
    outcome = of_case(case, played(Runs(DuckDb(), strategy, TYPES), [case]))
    assert outcome.rows == case.expected()
    assert outcome.counts == case.changed
