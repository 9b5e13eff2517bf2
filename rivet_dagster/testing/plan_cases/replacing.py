"""ReplaceAll: the batch replaces all rows; the counts are the rows of the batch and of the table before."""

from __future__ import annotations

from datetime import date

from rivet_dagster.model.write_plan import ReplaceAll
from rivet_dagster.testing.plan_cases.case import BEFORE, PlanCase

CASES = (
    PlanCase(
        "replace: the table becomes the batch, each row as often as it occurs there",
        ReplaceAll(),
        before=BEFORE,
        batch=[(1, "a", 1), (9, "c", 9), (9, "c", 9)],
        after=[(1, "a", 1), (9, "c", 9), (9, "c", 9)],
        counts=(3, 0, 3),
    ),
    PlanCase(
        "replace: the table takes the batch's columns",
        ReplaceAll(),
        before=BEFORE,
        batch_columns="n STRING, at DATE",
        batch=[("one", date(2024, 1, 1))],
        columns_after="n STRING, at DATE",
        after=[("one", date(2024, 1, 1))],
        counts=(1, 0, 3),
    ),
    PlanCase(
        "replace: by no rows",
        ReplaceAll(),
        before=BEFORE,
        batch=[],
        after=[],
        counts=(0, 0, 3),
    ),
    PlanCase(
        "replace in the table: columns go by name into the order and the spelling of the table",
        ReplaceAll(keeps_table=True),
        before=BEFORE,
        batch_columns="N BIGINT, Id BIGINT, day STRING",
        batch=[(9, 1, "c"), (9, 1, "c")],
        after=[(1, "c", 9), (1, "c", 9)],
        counts=(2, 0, 3),
    ),
    PlanCase(
        "replace in the table: by no rows",
        ReplaceAll(keeps_table=True),
        before=BEFORE,
        batch=[],
        after=[],
        counts=(0, 0, 3),
    ),
)
