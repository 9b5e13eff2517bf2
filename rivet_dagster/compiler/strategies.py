"""Rules of write strategies: the columns that their options name exist, as far as schemas are known before a run.

Columns that the options of a table name, such as those of its partitions: they are among those of its rows.

The rules of `partitions`: the columns of a joint's rows and the parameters in its SQL.
"""

from __future__ import annotations

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.schemas import JointSchema
from rivet_dagster.errors import nearest
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.schema import INFERRED, INTROSPECTED, Schema
from rivet_dagster.model.write_strategy import SPELLINGS
from rivet_dagster.sql.parsing.dialect import SqlError
from rivet_dagster.sql.parsing.other_dialect import other_parameters
from rivet_dagster.sql.target import parameters


def check_strategies(context: GroupsContext) -> None:
    """Report RVT-324 for columns missing in published rows, or in them although the strategy adds them; RVT-325."""
    graph, schemas, diagnostics = context.graph, context.schemas, context.diagnostics
    for name, joint in graph.joints.items():
        if joint.write_strategy.keeps_history and joint.partitions is not None:
            message = "scd2 keeps a history of each key over all time, so its table has no `partitions`"
            diagnostics.error(joint, "RVT-325", message, key="partitions")
        batch = schemas[name].batch
        if joint.publishes and batch is not None:
            _check(joint, batch, diagnostics)


def _check(joint: Joint, schema: Schema, diagnostics: Diagnostics) -> None:
    present = {field.name.lower() for field in schema}
    giver = "upstream" if joint.type == SINK else "query"
    for option, column in joint.write_strategy.columns:
        if column.lower() not in present:
            message = f"`{option}` names {column}, which its {giver} does not have{nearest(column, present)}"
            diagnostics.error(joint, "RVT-324", message, key=_key(joint, option))
    for option, column in joint.write_strategy.validity:
        if column.lower() in present:
            message = f"scd2 adds the column {column} (`{option}`), and its {giver} has one of that name"
            remedy = f"Leave it out, or give scd2's own another name: `{option}: ...`."
            diagnostics.error(joint, "RVT-324", message, _key(joint, option), remedy)


def _key(joint: Joint, option: str) -> str:
    """Return the key at which the declaration gives an option, whichever of its spellings is used."""
    names = (option, *(other for other, name in SPELLINGS.items() if name == option))
    keys = [f"write_strategy.{name}" for name in names]
    return next((key for key in keys if key in joint.origin.lines), "write_strategy")


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


def check_parameters(context: DeclaredContext) -> None:
    """Report RVT-323 for a partition parameter that has no value in a run."""
    graph, diagnostics = context.graph, context.diagnostics
    for name, query in ((joint, query) for joint in graph.queries for query in graph.renderings(joint)):
        if "partition_" in query.text and (":partition_" in query.text or query.dialect is not None):
            joint = graph.joints[name]
            allowed = joint.partitions.parameters if joint.partitions is not None else ()
            used = parameters(query.text) if query.dialect is None else other_parameters(query.text)
            for parameter, line in used.items():
                if parameter in PARTITION_PARAMETERS and parameter not in allowed:
                    diagnostics.sql_error(joint, "RVT-323", SqlError(_why(joint, parameter), line), query.lines)
    for joint in graph.joints.values():
        if joint.type == SOURCE:
            _check_source(joint, diagnostics)


def _check_source(joint: Joint, diagnostics: Diagnostics) -> None:
    """Report partition parameters in a source's transforms: only its `partitions` select rows."""
    texts = {"filter": joint.filter or "", "columns": "\n".join(text or "" for _, text in joint.columns)}
    for key, text in texts.items():
        used = [name for name in PARTITION_PARAMETERS if f":{name}" in text]
        if used:
            message = f"`{key}` uses :{used[0]}, which only SQL joints may"
            diagnostics.error(
                joint, "RVT-323", message, key, "Give the source `partitions`: a run reads its window alone."
            )


def check_partition_columns(context: GroupsContext) -> None:
    """Report RVT-322 for a partition column that is known to be missing from a joint's rows, or of a wrong type."""
    graph, schemas, diagnostics = context.graph, context.schemas, context.diagnostics
    for name, joint in graph.joints.items():
        schema = schemas[name].batch
        if joint.partitions is not None and schema is not None:
            # A type that is known of one upstream only may be widened by Spark to fit another upstream's.
            upstream = [schemas[u].confidence for u in graph.upstream[name]] if joint.type == SINK else []
            certain = len(upstream) < 2 or set(upstream) <= {INTROSPECTED, INFERRED}
            try:
                joint.partitions.type_in((field.name, field.type if certain else None) for field in schema)
            except ValueError as error:
                diagnostics.error(joint, "RVT-322", str(error), "partitions")


def _why(joint: Joint, parameter: str) -> str:
    reason = "the joint has no `partitions`" if joint.partitions is None else "static partitions have no times"
    return f"uses :{parameter}, but {reason}"
