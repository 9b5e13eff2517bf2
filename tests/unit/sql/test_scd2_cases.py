"""The cases of histories, without a JVM: the plain model leaves what was written down by hand, and so do the queries.

Catalogs are put to the same cases by rivet_dagster.testing.catalog.
"""

import pytest
from support.scd2_cases import CASE, TYPES, after, batch_of, of_case, played, started_at, strategy_of
from support.scd2_runs import DuckDb, Runs


@CASE
def test_the_model(histories, case):
    strategy = strategy_of(histories)
    history, before = [], []
    for run in range(len(case.runs)):
        history, before = strategy.run(history, batch_of(case, run), started_at(run)), history
    assert sorted(history, key=lambda row: row["valid_from"]) == after(strategy, case)
    assert strategy.difference(before, history) == case.changed


@pytest.fixture(scope="module")
def duckdb() -> DuckDb:
    """Return one engine for all cases, each of which replaces its tables."""
    return DuckDb()


@pytest.mark.nightly(but=4)
@pytest.mark.slow
@CASE
def test_the_queries(duckdb, histories, case):
    strategy = strategy_of(histories)
    outcome = of_case(case, played(Runs(duckdb, strategy, TYPES), [case]))
    assert outcome.rows == after(strategy, case)
    assert outcome.counts == case.changed
