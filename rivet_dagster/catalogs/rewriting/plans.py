"""Properties of write plans that a rewrite needs."""

from __future__ import annotations

from rivet_dagster.model.write_plan import (
    AppendNewer,
    DeleteInsert,
    History,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)


def identity(plan: WritePlan) -> tuple[str, ...]:
    """Return the columns by which incoming rows match the rows of the base that they replace; none without such.

    >>> identity(History(keys=("id",))), identity(Upsert(keys=("id",)))
    (('id', 'valid_from'), ('id',))
    """
    match plan:
        case Upsert():
            return plan.keys
        case History():
            return (*plan.keys, plan.valid_from)
        case DeleteInsert():
            return plan.columns
        case ReplacePartitions():
            return (plan.column,)
    return ()


def partition_columns(plan: WritePlan) -> tuple[str, ...]:
    """Return the partition columns: all rows with a value that the batch has are replaced; none for other plans.

    >>> partition_columns(DeleteInsert(columns=("id",))), partition_columns(ReplacePartitions(column="day"))
    ((), ('day',))
    """
    parts = isinstance(plan, ReplacePartitions) or (isinstance(plan, DeleteInsert) and plan.by_partition)
    return identity(plan) if parts else ()


def replaces_everything(plan: WritePlan) -> bool:
    """Return whether the plan replaces all rows and the columns of the table."""
    return isinstance(plan, ReplaceAll) and not plan.keeps_table


def transforms(plan: WritePlan) -> bool:
    """Return whether incoming rows differ from the batch, which is then stored first, to be computed only once."""
    return isinstance(plan, Upsert | History | AppendNewer)
