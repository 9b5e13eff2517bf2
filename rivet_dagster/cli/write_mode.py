"""The words for how a table is written."""

from __future__ import annotations

from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)


def strategy_of(plan: WritePlan) -> str:
    """Return the mode of the write strategy that a write carries out.

    >>> strategy_of(Upsert(keys=("id",)))
    'merge'
    """
    match plan:
        case ReplaceAll(keeps_table=keeps_table):
            return "truncate_insert" if keeps_table else "replace"
        case Append():
            return "append"
        case AppendNewer():
            return "incremental_append"
        case Upsert():
            return "merge"
        case ReplacePartitions():
            return "snapshot"
        case DeleteInsert():
            return "delete_insert"
        case History():
            return "scd2"
        case Refresh():
            return "replace"


def mode_text(plan: WritePlan) -> str:
    """Return the mode, and the columns by which rows of the batch and of the target are compared.

    >>> mode_text(Upsert(keys=("id", "day"))), mode_text(ReplaceAll())
    ('merge by id, day', 'replace')
    """
    columns: tuple[str, ...] = ()
    match plan:
        case AppendNewer(column=column) | ReplacePartitions(column=column):
            columns = (column,)
        case Upsert(keys=keys) | History(keys=keys):
            columns = keys
        case DeleteInsert(columns=by):
            columns = by
    return f"{strategy_of(plan)} by {', '.join(columns)}" if columns else strategy_of(plan)
