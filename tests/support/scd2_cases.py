"""The cases of histories by name, for the plain model and for engines: rows as dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rivet_dagster.testing.plan_cases.case import Rows, fields
from rivet_dagster.testing.plan_cases.runs import COLUMNS, HISTORIES, Histories, HistoryCase, started_at
from support.scd2_model import Row, Scd2
from support.scd2_runs import Outcome, Runs

TYPES = dict(fields(COLUMNS))

CASE = pytest.mark.parametrize(
    ("histories", "case"),
    [(histories, case) for histories in HISTORIES for case in histories.cases],
    ids=[f"{histories.name}: {case.name}" for histories in HISTORIES for case in histories.cases],
)
"""Each case of each plan."""


def strategy_of(histories: Histories) -> Scd2:
    """The strategy whose plan the cases are of."""
    plan = histories.plan
    strategy = Scd2(
        tuple(TYPES),
        plan.keys,
        track_columns=plan.tracked,
        effective_at=plan.effective_at,
        close_missing=plan.close_missing,
    )
    assert strategy.plan == plan
    return strategy


def batch_of(cases: Histories | HistoryCase, run: int) -> list[Row]:
    """What a run brings."""
    return _named(tuple(TYPES), cases.batch(run))


def after(strategy: Scd2, case: HistoryCase) -> list[Row]:
    """The versions that a case leaves."""
    return _named(strategy.history_columns, case.after())


def played(runs: Runs, cases: Sequence[HistoryCase]) -> list[Outcome]:
    """What each run leaves of all cases, which are keys of their own."""
    outcomes: list[Outcome] = []
    for run in range(max(len(case.runs) for case in cases)):
        history = outcomes[-1].rows if outcomes else []
        batch = [row for case in cases for row in batch_of(case, run)]
        outcomes.append(runs.run(history, batch, started_at(run)))
    return outcomes


def of_case(case: HistoryCase, outcomes: Sequence[Outcome]) -> Outcome:
    """What the last run of a case left of it."""
    last = outcomes[len(case.runs) - 1]
    rows, inserted, updated = (
        sorted((row for row in rows if row["id"] == case.name), key=lambda row: row["valid_from"])
        for rows in (last.rows, last.inserted, last.updated)
    )
    return Outcome(rows, inserted, updated)


def _named(columns: Sequence[str], rows: Rows) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in rows]
