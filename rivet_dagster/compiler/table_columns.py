"""The columns of a published table, as its readers find them, where they are not those of the batch."""

from __future__ import annotations

from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.write_plan import History, WritePlan
from rivet_dagster.sql.write_strategies.history import VERSION_COLUMNS


def may_differ(plan: WritePlan) -> bool:
    """Return whether the table may have columns that no batch has, or lack some that a batch has.

    >>> may_differ(History(keys=("id",))), may_differ(History(keys=("id",), schema_change="add"))
    (False, True)
    """
    return not plan.replaces_table and plan.schema_change != "fail"


def table_columns(plan: WritePlan, batch: Schema) -> Schema:
    """Return the columns of the table to which ``batch`` is written, in order: a history has some of its own.

    >>> [field.name for field in table_columns(History(keys=("id",)), (Field("id"), Field("name")))]
    ['id', 'name', 'valid_from', 'valid_to', 'is_current']
    """
    if not isinstance(plan, History):
        return batch
    return (*batch, *(Field(getattr(plan, field), kind) for field, kind in VERSION_COLUMNS.items()))
