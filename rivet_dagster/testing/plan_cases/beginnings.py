"""Tables that do not exist or have no rows, and batches without rows, for all plans but ``History``.

By ``Refresh`` a table becomes what the plan makes of one that does not exist, whatever it held.
"""

from __future__ import annotations

from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    Refreshed,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)
from rivet_dagster.testing.plan_cases.case import BEFORE, STARTED, PlanCase, RefusalCase, Rows
from rivet_dagster.testing.plan_cases.histories import VERSIONS
from rivet_dagster.testing.plan_cases.upserts import BY_ID

_UPON_THE_TABLE: dict[str, WritePlan] = {
    "append": Append(),
    "append newer": AppendNewer(column="n"),
    "upsert": Upsert(keys=("id",)),
    "replace partitions": ReplacePartitions(column="day"),
    "delete and insert": DeleteInsert(columns=("id",)),
    "delete and insert by partition": DeleteInsert(columns=("day",), by_partition=True),
}
"""The plans that keep rows of the table."""

_ALL: dict[str, WritePlan] = {
    "replace": ReplaceAll(),
    "replace in the table": ReplaceAll(keeps_table=True),
    **_UPON_THE_TABLE,
}

CASES = (
    *(
        PlanCase(
            f"{name}: the first batch makes the table",
            plan,
            before=None,
            batch=BEFORE,
            after=BEFORE,
            counts=(3, 0, 0),
        )
        for name, plan in _ALL.items()
    ),
    *(
        PlanCase(
            f"{name}: a first batch without rows makes a table without rows",
            plan,
            before=None,
            batch=[],
            after=[],
            counts=(0, 0, 0),
        )
        for name, plan in _ALL.items()
    ),
    *(
        PlanCase(
            f"{name}: a table without rows takes all rows",
            plan,
            written_by=plan,
            before=[],
            batch=BEFORE,
            after=BEFORE,
            counts=(3, 0, 0),
        )
        for name, plan in _UPON_THE_TABLE.items()
    ),
    *(
        PlanCase(
            f"{name}: a batch without rows changes nothing",
            plan,
            before=BEFORE,
            batch=[],
            after=BEFORE,
            counts=(0, 0, 0),
        )
        for name, plan in _UPON_THE_TABLE.items()
    ),
)


_OLD: Rows = [(1, "a", 9), (2, "stays", 9), (None, "b", 9)]

_COLUMNS = "id STRING, day STRING, n BIGINT, net DOUBLE"
"""The batch's: the table has another type of ``id``, and no ``net``."""
_BATCH: Rows = [("1", "a", 1, 0.5), ("1", "a", 2, 0.5), ("1", "a", 2, 0.5), (None, "c", 3, None)]
_ONE_EACH: Rows = [("1", "a", 2, 0.5), (None, "c", 3, None)]

_PLANS: dict[str, tuple[Refreshed, Rows]] = {
    "append newer": (AppendNewer(column="n"), _BATCH),
    "upsert": (Upsert(keys=("id",), order_by=("n",)), _ONE_EACH),
    "replace partitions": (ReplacePartitions(column="day"), _BATCH),
    "delete and insert": (DeleteInsert(columns=("id",)), _BATCH),
    "delete and insert by partition": (DeleteInsert(columns=("day",), by_partition=True), _BATCH),
}
"""Plans, and what they make of the batch."""

REFRESH_CASES = (
    *(
        PlanCase(
            f"refresh, {name}: no old row or column stays, and no old row is compared with",
            Refresh(plan=plan),
            before=_OLD,
            batch_columns=_COLUMNS,
            batch=_BATCH,
            columns_after=_COLUMNS,
            after=after,
            counts=(len(after), 0, 3),
        )
        for name, (plan, after) in _PLANS.items()
    ),
    PlanCase(
        "refresh, history: every key begins a history anew",
        Refresh(plan=History(keys=("id",), close_missing=True)),
        columns=f"id BIGINT, price BIGINT, {VERSIONS}",
        before=[(1, 1, STARTED, None, True), (2, 2, STARTED, None, True)],
        batch_columns="id BIGINT, cost BIGINT",
        batch=[(1, 3), (1, 3), (4, 4)],
        columns_after=f"id BIGINT, cost BIGINT, {VERSIONS}",
        after=[(1, 3, STARTED, None, True), (4, 4, STARTED, None, True)],
        counts=(2, 0, 2),
    ),
    PlanCase(
        "refresh, upsert: a table whose columns stay",
        Refresh(plan=BY_ID),
        before=_OLD,
        batch=[(1, "a", 9), (1, "a", 9), (5, "e", 5)],
        after=[(1, "a", 9), (5, "e", 5)],
        counts=(2, 0, 3),
    ),
    PlanCase(
        "refresh, upsert: a batch without rows empties the table",
        Refresh(plan=BY_ID),
        before=_OLD,
        batch=[],
        after=[],
        counts=(0, 0, 3),
    ),
    PlanCase(
        "refresh, upsert: a table that does not exist",
        Refresh(plan=BY_ID),
        before=None,
        batch=[(1, "a", 9), (1, "a", 9)],
        after=[(1, "a", 9)],
        counts=(1, 0, 0),
    ),
)

REFRESH_REFUSALS = (
    RefusalCase(
        "refresh, upsert: unequal rows of a key",
        Refresh(plan=BY_ID),
        before=_OLD,
        batch=[(7, "a", 1), (7, "b", 1)],
        code="RVT-515",
        named=("id=7",),
    ),
    RefusalCase(
        "refresh, append newer: a row without a watermark",
        Refresh(plan=AppendNewer(column="n")),
        before=_OLD,
        batch=[(7, "a", None)],
        code="RVT-516",
        named=("1 rows", "n"),
    ),
)
