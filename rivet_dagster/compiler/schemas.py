"""The columns of each joint, as far as declarations and queries tell."""

from __future__ import annotations

from dataclasses import replace

from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE
from rivet_dagster.model.schema import INFERRED, NONE, PARTIAL, Field, Schema
from rivet_dagster.sql.columns import output_columns, parse_ddl


def infer_schemas(joints: tuple[CompiledJoint, ...], graph: Graph) -> tuple[CompiledJoint, ...]:
    """The same joints with ``schema`` and ``schema_confidence``."""
    by_name = {joint.name: joint for joint in joints}
    schemas: dict[str, Schema | None] = {}
    for name in graph.order:
        schemas[name] = _schema(by_name[name], graph, schemas)
    return tuple(replace(j, schema=schemas[j.name], schema_confidence=_confidence(schemas[j.name])) for j in joints)


def _schema(joint: CompiledJoint, graph: Graph, schemas: dict[str, Schema | None]) -> Schema | None:
    if joint.type == SOURCE:
        return _source_schema(joint)
    if joint.type == PYTHON:
        return None
    if joint.type == SINK:
        known = {schemas[u] for u in joint.upstream}
        return known.pop() if len(known) == 1 else None
    tree = graph.queries[joint.name].tree
    return output_columns(tree, {u: schemas[u] for u in joint.upstream}) if tree is not None else None


def _source_schema(joint: CompiledJoint) -> Schema | None:
    ddl = joint.options.get("schema")
    table = parse_ddl(ddl) if isinstance(ddl, str) else None
    if not joint.columns:
        return table
    types = {field.name.lower(): field.type for field in table or ()}
    return tuple(Field(name, types.get(name.lower()) if text is None else None) for name, text in joint.columns)


def _confidence(schema: Schema | None) -> str:
    if schema is None:
        return NONE
    return INFERRED if all(field.type is not None for field in schema) else PARTIAL
