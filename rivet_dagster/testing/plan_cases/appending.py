"""Append and AppendNewer: all rows of the batch are added, or those with a greater watermark than the table."""

from __future__ import annotations

from datetime import date

from rivet_dagster.model.write_plan import Append, AppendNewer
from rivet_dagster.testing.plan_cases.case import BEFORE, PlanCase, Refusal

DATED = "id BIGINT, seen_on DATE"
MONDAY, TUESDAY, FRIDAY = date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 5)

CASES = (
    PlanCase(
        "append: all rows are added, equal ones too",
        Append(),
        before=BEFORE,
        batch=[(1, "a", 1), (9, "c", 9), (9, "c", 9)],
        after=[*BEFORE, (1, "a", 1), (9, "c", 9), (9, "c", 9)],
        counts=(3, 0, 0),
    ),
    PlanCase(
        "append: columns go by name, in any order and letter case",
        Append(),
        before=BEFORE,
        batch_columns="N BIGINT, Id BIGINT, DAY STRING",
        batch=[(9, 1, "c")],
        after=[*BEFORE, (1, "c", 9)],
        counts=(1, 0, 0),
    ),
    PlanCase(
        "append newer: newer is greater than all of the table, not as great",
        AppendNewer(column="SEEN_ON"),
        columns=DATED,
        before=[(1, MONDAY), (2, TUESDAY), (3, None)],
        batch=[(4, MONDAY), (5, TUESDAY), (6, FRIDAY), (6, FRIDAY)],
        after=[(1, MONDAY), (2, TUESDAY), (3, None), (6, FRIDAY), (6, FRIDAY)],
        counts=(2, 0, 0),
    ),
    PlanCase(
        "append newer: the same batch again adds nothing",
        AppendNewer(column="n"),
        before=BEFORE,
        batch=BEFORE,
        after=BEFORE,
        counts=(0, 0, 0),
    ),
    PlanCase(
        "append newer: a table without a watermark takes all rows",
        AppendNewer(column="seen_on"),
        columns=DATED,
        before=[(1, None)],
        batch=[(2, MONDAY)],
        after=[(1, None), (2, MONDAY)],
        counts=(1, 0, 0),
    ),
)

REFUSALS = (
    Refusal(
        "append newer: a row without a watermark",
        AppendNewer(column="seen_on"),
        columns=DATED,
        before=[(1, MONDAY)],
        batch=[(2, FRIDAY), (3, None)],
        code="RVT-516",
        named=("1 rows", "seen_on"),
    ),
    Refusal(
        "append newer: a row without a watermark in the first batch",
        AppendNewer(column="seen_on"),
        columns=DATED,
        before=None,
        batch=[(2, FRIDAY), (3, None)],
        code="RVT-516",
        named=("1 rows", "seen_on"),
    ),
)
