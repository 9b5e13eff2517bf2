"""The meaning of every write plan as test cases: the rows before, the batch, and the rows after."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)

Rows = list[tuple[object, ...]]

STARTED = datetime(2024, 1, 2, tzinfo=UTC)
EARLIER = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PlanCase:
    """A batch written to a table of ``(id, day, n)``; ``counts`` are the rows inserted, updated and deleted."""

    name: str
    plan: WritePlan
    before: Rows
    batch: Rows
    after: Rows
    counts: tuple[int, int, int] = field(kw_only=True)


BEFORE: Rows = [(1, "a", 1), (2, "b", 2), (None, "b", 3)]

CASES: tuple[PlanCase, ...] = (
    PlanCase("replace", ReplaceAll(), BEFORE, [(9, "c", 9)], [(9, "c", 9)], counts=(1, 0, 3)),
    PlanCase("replace in the table", ReplaceAll(keeps_table=True), BEFORE, [(9, "c", 9)], [(9, "c", 9)],
             counts=(1, 0, 3)),
    PlanCase("replace by nothing", ReplaceAll(keeps_table=True), BEFORE, [], [], counts=(0, 0, 3)),
    PlanCase("append", Append(), BEFORE, [(1, "a", 1)], [*BEFORE, (1, "a", 1)], counts=(1, 0, 0)),
    PlanCase("append nothing", Append(), BEFORE, [], BEFORE, counts=(0, 0, 0)),
    PlanCase("append newer", AppendNewer(column="n"), BEFORE, [(4, "c", 3), (5, "c", 4)], [*BEFORE, (5, "c", 4)],
             counts=(1, 0, 0)),
    PlanCase("upsert", Upsert(keys=("id",)), BEFORE, [(2, "b", 7), (3, "c", 3)],
             [(1, "a", 1), (2, "b", 7), (None, "b", 3), (3, "c", 3)], counts=(1, 1, 0)),
    PlanCase("upsert of a NULL key", Upsert(keys=("id",)), BEFORE, [(None, "b", 8)],
             [(1, "a", 1), (2, "b", 2), (None, "b", 8)], counts=(0, 1, 0)),
    PlanCase("upsert of equal rows", Upsert(keys=("id",)), BEFORE, BEFORE, BEFORE, counts=(0, 0, 0)),
    PlanCase("upsert, the greatest counts", Upsert(keys=("id",), order_by=("n",)), BEFORE, [(2, "x", 5), (2, "y", 6)],
             [(1, "a", 1), (2, "y", 6), (None, "b", 3)], counts=(0, 1, 0)),
    PlanCase("replace partitions", ReplacePartitions(column="day"), BEFORE, [(7, "b", 7)], [(1, "a", 1), (7, "b", 7)],
             counts=(1, 0, 2)),
    PlanCase("delete and insert", DeleteInsert(columns=("id",)), BEFORE, [(1, "z", 1), (1, "z", 2)],
             [(1, "z", 1), (1, "z", 2), (2, "b", 2), (None, "b", 3)], counts=(2, 0, 1)),
    PlanCase("delete and insert by partition", DeleteInsert(columns=("day",), by_partition=True), BEFORE, [(7, "b", 7)],
             [(1, "a", 1), (7, "b", 7)], counts=(1, 0, 2)),
)  # fmt: skip
"""The cases of all plans but History, whose tables have more columns."""

HISTORY = History(keys=("id",))
"""A plan for two runs, at EARLIER and at STARTED; the second batch changes one key and adds a new one."""
HISTORY_BATCHES: tuple[Rows, Rows] = ([(1, "a", 1), (2, "b", 2)], [(1, "a", 1), (2, "b", 5), (3, "c", 3)])
HISTORY_AFTER: Rows = [
    (1, "a", 1, EARLIER, None, True),
    (2, "b", 2, EARLIER, STARTED, False),
    (2, "b", 5, STARTED, None, True),
    (3, "c", 3, STARTED, None, True),
]
