"""What `partitions` ask of a joint's rows and of its SQL."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.schemas import JointSchema
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.schema import INFERRED, INTROSPECTED
from rivet_dagster.sql.dialect import SqlError
from rivet_dagster.sql.parameters import parameters


def check_parameters(graph: Graph, found: Diagnostics) -> None:
    """RVT-323 for a parameter of partitions where a run has no value for it."""
    for name, text in ((joint, query.text) for joint in graph.queries for query in graph.renderings(joint)):
        if ":partition_" in text:
            joint = graph.joints[name]
            allowed = joint.partitions.parameters if joint.partitions is not None else ()
            for parameter, line in parameters(text).items():
                if parameter in PARTITION_PARAMETERS and parameter not in allowed:
                    found.sql_error(joint, "RVT-323", SqlError(_why(joint, parameter), line))
    for joint in graph.joints.values():
        if joint.type == SOURCE:
            _check_source(joint, found)


def _check_source(joint: Joint, found: Diagnostics) -> None:
    """A source's own transforms are no query of the author's: its `partitions` choose the rows."""
    texts = {"filter": joint.filter or "", "columns": "\n".join(text or "" for _, text in joint.columns)}
    for key, text in texts.items():
        used = [name for name in PARTITION_PARAMETERS if f":{name}" in text]
        if used:
            message = f"`{key}` uses :{used[0]}, which only SQL joints may"
            found.error(joint, "RVT-323", message, key, "Give the source `partitions`: a run reads its window alone.")


def check_partition_columns(graph: Graph, schemas: Mapping[str, JointSchema], found: Diagnostics) -> None:
    """RVT-322 for a partition column that a joint's rows are known not to have, or to have with a wrong type."""
    for name, joint in graph.joints.items():
        schema = schemas[name].schema
        if joint.partitions is not None and schema is not None:
            # Where a type is that of one upstream alone, Spark may widen it by another's.
            upstream = [schemas[u].confidence for u in graph.upstream[name]] if joint.type == SINK else []
            certain = len(upstream) < 2 or set(upstream) <= {INTROSPECTED, INFERRED}
            try:
                joint.partitions.type_in((field.name, field.type if certain else None) for field in schema)
            except ValueError as error:
                found.error(joint, "RVT-322", str(error), "partitions")


def _why(joint: Joint, parameter: str) -> str:
    why = "the joint has no `partitions`" if joint.partitions is None else "static partitions have no times"
    return f"uses :{parameter}, but {why}"
