"""The rules of `partitions`: the columns of a joint's rows and the parameters in its SQL."""

from __future__ import annotations

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.schema import INFERRED, INTROSPECTED
from rivet_dagster.sql.dialect import SqlError
from rivet_dagster.sql.target import parameters


def check_parameters(context: DeclaredContext) -> None:
    """Report RVT-323 for a partition parameter that has no value in a run."""
    graph, diagnostics = context.graph, context.diagnostics
    for name, query in ((joint, query) for joint in graph.queries for query in graph.renderings(joint)):
        if ":partition_" in query.text:
            joint = graph.joints[name]
            allowed = joint.partitions.parameters if joint.partitions is not None else ()
            for parameter, line in parameters(query.text).items():
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
