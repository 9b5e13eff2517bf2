"""Columns that only the batch or only the table has, and types that are widened or refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from rivet_dagster.model.write_plan import Append, AppendNewer, DeleteInsert, ReplaceAll, ReplacePartitions, Upsert
from rivet_dagster.testing.plan_cases.case import PlanCase, RefusalCase, Rows

BEFORE: Rows = [(1, "a", 1), (2, "b", 2)]
OTHERS = "net DOUBLE, N BIGINT, id BIGINT"
"""The batch lacks ``day``, and the table ``net``."""
BATCH: Rows = [(0.5, 3, 2)]

BESIDE: Rows = [(1, "a", 1, None), (2, "b", 2, None), (2, None, 3, 0.5)]
INSTEAD: Rows = [(1, "a", 1, None), (2, None, 3, 0.5)]
ALONE: Rows = [(2, None, 3, 0.5)]

Fitting = ReplaceAll | Append | AppendNewer | Upsert | ReplacePartitions | DeleteInsert
"""The plans of which a batch must fit the columns of the table."""

AFTER: dict[str, tuple[Fitting, Rows, tuple[int, int, int]]] = {
    "replace in the table": (ReplaceAll(keeps_table=True), ALONE, (1, 0, 2)),
    "append": (Append(), BESIDE, (1, 0, 0)),
    "append newer": (AppendNewer(column="n"), BESIDE, (1, 0, 0)),
    "upsert": (Upsert(keys=("id",)), INSTEAD, (0, 1, 0)),
    "replace partitions": (ReplacePartitions(column="id"), INSTEAD, (1, 0, 1)),
    "delete and insert": (DeleteInsert(columns=("id",)), INSTEAD, (1, 0, 1)),
}
"""Plans, the rows after the write, and the counts."""

NARROW = "whole INT, digits DECIMAL(5,2), fraction FLOAT"
WIDE = "whole BIGINT, digits DECIMAL(9,2), fraction DOUBLE"

CASES = (
    *(
        PlanCase(
            f"{name}: add gives the table a new column at its end, and one that the batch lacks is NULL",
            replace(plan, schema_change="add"),
            before=BEFORE,
            batch_columns=OTHERS,
            batch=BATCH,
            columns_after="id BIGINT, day STRING, n BIGINT, net DOUBLE",
            after=after,
            counts=counts,
        )
        for name, (plan, after, counts) in AFTER.items()
    ),
    *(
        PlanCase(
            f"{name}: ignore leaves a new column out, and one that the batch lacks is NULL",
            replace(plan, schema_change="ignore"),
            before=BEFORE,
            batch_columns=OTHERS,
            batch=BATCH,
            after=[row[:3] for row in after],
            counts=counts,
        )
        for name, (plan, after, counts) in AFTER.items()
    ),
    PlanCase(
        "append: the table takes the batch's wider types",
        Append(),
        columns=NARROW,
        before=[(1, Decimal("1.25"), 1.5)],
        batch_columns=WIDE,
        batch=[(2**40, Decimal("1234567.25"), 0.1)],
        columns_after=WIDE,
        after=[(1, Decimal("1.25"), 1.5), (2**40, Decimal("1234567.25"), 0.1)],
        counts=(1, 0, 0),
    ),
    PlanCase(
        "append: the batch takes the table's wider types",
        Append(),
        columns=WIDE,
        before=[(2**40, Decimal("1234567.25"), 0.1)],
        batch_columns=NARROW,
        batch=[(1, Decimal("1.25"), 1.5)],
        after=[(2**40, Decimal("1234567.25"), 0.1), (1, Decimal("1.25"), 1.5)],
        counts=(1, 0, 0),
    ),
    PlanCase(
        "upsert: keys and values of another width are compared by what they say",
        Upsert(keys=("whole",)),
        columns=NARROW,
        before=[(1, Decimal("1.25"), 1.5), (2, Decimal("2.25"), 2.5), (3, Decimal("3.25"), 3.5)],
        batch_columns=WIDE,
        batch=[(2, Decimal("2.25"), 2.5), (3, Decimal("1234567.25"), 3.5), (2**40, None, None)],
        columns_after=WIDE,
        after=[
            (1, Decimal("1.25"), 1.5),
            (2, Decimal("2.25"), 2.5),
            (3, Decimal("1234567.25"), 3.5),
            (2**40, None, None),
        ],
        counts=(1, 1, 0),
    ),
)

REFUSALS = (
    *(
        RefusalCase(
            f"{name}: a column that only one of them has, unless the plan says what becomes of it",
            plan,
            before=BEFORE,
            batch_columns=OTHERS,
            batch=BATCH,
            code="RVT-514",
            named=("lacks day", "net"),
        )
        for name, (plan, *_) in AFTER.items()
    ),
    RefusalCase(
        "append: a column more",
        Append(),
        before=BEFORE,
        batch_columns="id BIGINT, day STRING, n BIGINT, net DOUBLE",
        batch=[(1, "a", 1, None)],
        code="RVT-514",
        named=("net",),
        unnamed=("day",),
    ),
    RefusalCase(
        "append: a column less, though it be empty",
        Append(),
        before=[(1, None, 1)],
        batch_columns="id BIGINT, n BIGINT",
        batch=[(1, 1)],
        code="RVT-514",
        named=("day",),
    ),
    RefusalCase(
        "append: types of which none holds every value of the other, whatever becomes of columns",
        Append(schema_change="add"),
        columns="into_text BIGINT, into_day BIGINT, into_truth BIGINT, into_whole DOUBLE, from_text STRING,"
        " other_scale DECIMAL(9,2)",
        before=[(1, 1, 1, 1.0, "1", Decimal("1.25"))],
        batch_columns="into_text STRING, into_day DATE, into_truth BOOLEAN, into_whole BIGINT, from_text BIGINT,"
        " other_scale DECIMAL(9,3)",
        batch=[("1", date(2024, 1, 1), True, 1, 1, Decimal("1.250"))],
        code="RVT-514",
        named=("into_text", "into_day", "into_truth", "into_whole", "from_text", "other_scale"),
    ),
    RefusalCase(
        "append newer: a watermark of another type",
        AppendNewer(column="seen_on"),
        columns="seen_on DATE",
        before=[(date(2024, 1, 1),)],
        batch_columns="seen_on STRING",
        batch=[("2024-01-02",)],
        code="RVT-514",
        named=("seen_on",),
    ),
)
