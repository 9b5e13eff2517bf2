"""Plans by which all rows of the batch are in the table after the write: added to others, or in their place.

``Append`` adds them, ``AppendNewer`` those with a greater watermark than the table's. ``ReplaceAll`` replaces all rows,
``ReplacePartitions`` and ``DeleteInsert`` those with values that occur in the batch.
"""

from __future__ import annotations

import math
from datetime import date

from rivet_dagster.model.write_plan import Append, AppendNewer, DeleteInsert, ReplaceAll, ReplacePartitions, WritePlan
from rivet_dagster.testing.plan_cases.case import BEFORE, PlanCase, RefusalCase

REPLACE_CASES = (
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


BY_CODE = ReplacePartitions(column="code")

BY_ID: dict[str, WritePlan] = {
    "replace partitions": ReplacePartitions(column="id"),
    "delete and insert": DeleteInsert(columns=("id",)),
    "delete and insert by partition": DeleteInsert(columns=("id",), by_partition=True),
}
BY_TWO: dict[str, WritePlan] = {
    "delete and insert": DeleteInsert(columns=("ID", "Day")),
    "delete and insert by partition": DeleteInsert(columns=("ID", "Day"), by_partition=True),
}

PARTITION_CASES = (
    *(
        PlanCase(
            f"{name}: what has a value of the batch goes, NULL is a value, equal rows are all added",
            plan,
            before=[(1, "a", 1), (1, "b", 2), (2, "stays", 3), (2, "stays", 3), (None, "a", 4)],
            batch=[(1, "a", 1), (1, "a", 1), (None, "b", 5), (3, "c", 6)],
            after=[(2, "stays", 3), (2, "stays", 3), (1, "a", 1), (1, "a", 1), (None, "b", 5), (3, "c", 6)],
            counts=(4, 0, 3),
        )
        for name, plan in BY_ID.items()
    ),
    *(
        PlanCase(
            f"{name}: several columns are one value together; columns go by name in any order and letter case",
            plan,
            before=[(1, "a", 1), (1, None, 2), (2, "a", 3), (None, None, 4)],
            batch_columns="N BIGINT, DAY STRING, Id BIGINT",
            batch=[(9, None, 1), (8, "b", 2), (7, None, None)],
            after=[(1, "a", 1), (1, None, 9), (2, "a", 3), (2, "b", 8), (None, None, 7)],
            counts=(3, 0, 2),
        )
        for name, plan in BY_TWO.items()
    ),
    PlanCase(
        "replace partitions: days",
        ReplacePartitions(column="Day"),
        written_by=ReplacePartitions(column="Day"),
        columns="n BIGINT, day DATE",
        before=[(1, date(2024, 1, 1)), (2, date(2024, 1, 1)), (3, date(2024, 1, 2)), (4, None)],
        batch_columns="DAY DATE, N BIGINT",
        batch=[(date(2024, 1, 1), 9), (date(2024, 1, 5), 8), (None, 7)],
        after=[(9, date(2024, 1, 1)), (3, date(2024, 1, 2)), (7, None), (8, date(2024, 1, 5))],
        counts=(3, 0, 3),
    ),
    PlanCase(
        "replace partitions: texts that look like numbers, paths or nothing, and long ones",
        BY_CODE,
        written_by=BY_CODE,
        columns="code STRING, n BIGINT",
        before=[("01", 1), ("1", 1), ("a/b", 1), ("", 1), ("a=b", 1), ("ü%20", 1), ("x" * 300, 1), (None, 1)],
        batch=[("01", 2), ("", 2), ("a=b", 2), ("ü%20", 2), ("x" * 300, 2)],
        after=[("01", 2), ("1", 1), ("a/b", 1), ("", 2), ("a=b", 2), ("ü%20", 2), ("x" * 300, 2), (None, 1)],
        counts=(5, 0, 5),
    ),
    PlanCase(
        "replace partitions: numbers, of which the zeros are equal, and those that are none",
        BY_CODE,
        written_by=BY_CODE,
        columns="code DOUBLE, n BIGINT",
        before=[(0.0, 1), (1.5, 2), (math.nan, 3)],
        batch=[(-0.0, 4), (math.nan, 5)],
        after=[(0.0, 4), (1.5, 2), (math.nan, 5)],
        counts=(2, 0, 2),
    ),
)


DATED = "id BIGINT, seen_on DATE"
MONDAY, TUESDAY, FRIDAY = date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 5)

APPEND_CASES = (
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

APPEND_REFUSALS = (
    RefusalCase(
        "append newer: a row without a watermark",
        AppendNewer(column="seen_on"),
        columns=DATED,
        before=[(1, MONDAY)],
        batch=[(2, FRIDAY), (3, None)],
        code="RVT-516",
        named=("1 rows", "seen_on"),
    ),
    RefusalCase(
        "append newer: a row without a watermark in the first batch",
        AppendNewer(column="seen_on"),
        columns=DATED,
        before=None,
        batch=[(2, FRIDAY), (3, None)],
        code="RVT-516",
        named=("1 rows", "seen_on"),
    ),
)
