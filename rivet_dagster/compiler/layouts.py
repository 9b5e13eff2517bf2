"""Columns that the options of a table name, such as those of its partitions: they are among those of its rows."""

from __future__ import annotations

from rivet_dagster.compiler.context import GroupsContext
from rivet_dagster.compiler.schemas import JointSchema
from rivet_dagster.errors import nearest
from rivet_dagster.model.joint import Joint

_REMEDY = "Correct the joint's `options`, or have the query give that column."


def check_layouts(context: GroupsContext) -> None:
    """Report RVT-324 for columns that the options of a target name and that its table certainly does not have."""
    graph, plugins, diagnostics = context.graph, context.plugins, context.diagnostics
    for name, target in context.targets.items():
        spec = context.profile.catalog(target.catalog) if target.options else None
        named = (
            plugins.catalogs[spec.type].columns_named(target.options) if spec and spec.type in plugins.catalogs else ()
        )
        columns = _columns(graph.joints[name], context.schemas[name]) if named else None
        if columns is None:
            continue
        present = {column.lower() for column in columns}
        for option, column in named:
            if column.lower() not in present:
                message = f"`{option}` names {column}, which the table does not have{nearest(column, columns)}"
                diagnostics.error(graph.joints[name], "RVT-324", message, f"options.{option}", _REMEDY)


def _columns(joint: Joint, known: JointSchema) -> list[str] | None:
    """Return the columns of the table; None where they are not known, or it may have other columns than the batch."""
    strategy = joint.write_strategy
    if known.batch is None or (not strategy.plan.replaces_table and strategy.on_schema_change != "fail"):
        return None
    return [*(field.name for field in known.batch), *(column for _, column in strategy.validity)]
