"""Tables that do not exist or have no rows, and batches without rows, for all plans but ``History``."""

from __future__ import annotations

from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)
from rivet_dagster.testing.plan_cases.case import BEFORE, PlanCase

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
