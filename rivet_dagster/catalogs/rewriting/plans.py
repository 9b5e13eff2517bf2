"""What write plans have in common, seen from a rewrite."""

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
    """Return the columns by which an incoming row finds those of the base that it replaces; none without any.

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
    """Return the columns whose values in the batch say what is replaced as a whole; none of plans without.

    >>> partition_columns(DeleteInsert(columns=("id",))), partition_columns(ReplacePartitions(column="day"))
    ((), ('day',))
    """
    parts = isinstance(plan, ReplacePartitions) or (isinstance(plan, DeleteInsert) and plan.by_partition)
    return identity(plan) if parts else ()


def replaces_everything(plan: WritePlan) -> bool:
    """Return whether no row of the base stays, and nothing of the table's either."""
    return isinstance(plan, ReplaceAll) and not plan.keeps_table


def transforms(plan: WritePlan) -> bool:
    """Return whether the incoming rows are other than the batch: then this is stored first, to be computed once."""
    return isinstance(plan, Upsert | History | AppendNewer)
