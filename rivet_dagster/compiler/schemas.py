"""The columns of each joint and what they are made from, as far as declarations and queries tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.known_columns import Inferred, known_columns
from rivet_dagster.compiler.lineage import JointColumns, trace
from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.schema import INFERRED, INTROSPECTED, NONE, PARTIAL, Field, Schema
from rivet_dagster.sql.columns import output_columns, passes_on
from rivet_dagster.sql.dialect import SqlError, read_query
from rivet_dagster.sql.type_names import parse_ddl


@dataclass(frozen=True)
class _Known:
    schema: Schema | None = None
    columns: JointColumns = JointColumns()


def infer_schemas(
    joints: tuple[CompiledJoint, ...], graph: Graph, found: Diagnostics, memo: Memo, tables: Mapping[str, Schema]
) -> tuple[CompiledJoint, ...]:
    """The same joints with ``schema``, ``schema_confidence`` and ``lineage``; RVT-316, RVT-317 (a warning).

    ``tables`` are the columns of sources' tables as their catalogs told them.
    """
    by_name = {joint.name: joint for joint in joints}
    known: dict[str, _Known] = {}
    for name in graph.order:
        known[name] = _known(by_name[name], graph, known, found, memo, tables)
    _check_names(by_name, graph, known, found)
    lineage = trace(by_name, graph.order, {name: one.columns for name, one in known.items()})
    seen = {joint.name for joint in joints if joint.name in tables and not any(text for _, text in joint.columns)}
    return tuple(
        replace(
            j,
            schema=known[j.name].schema,
            schema_confidence=_confidence(j, known[j.name].schema, seen),
            lineage=lineage[j.name],
        )
        for j in joints
    )


def _known(
    joint: CompiledJoint,
    graph: Graph,
    known: Mapping[str, _Known],
    found: Diagnostics,
    memo: Memo,
    tables: Mapping[str, Schema],
) -> _Known:
    if joint.type == PYTHON:
        return _Known()
    if joint.type == SOURCE:
        upstream = {joint.name: tables.get(joint.name)}
    else:
        upstream = {name: known[name].schema for name in joint.upstream}
    if joint.type == SINK:
        return _sink(joint, graph, upstream, found)
    if joint.type == SQL and graph.queries[joint.name].unreadable is not None:
        return _Known()
    return _Known(*known_columns(joint, upstream, memo, lambda: _inferred(joint, graph, upstream)))


def _inferred(joint: CompiledJoint, graph: Graph, upstream: Mapping[str, Schema | None]) -> Inferred:
    if joint.type == SOURCE:
        return _source_schema(joint, upstream[joint.name]), JointColumns()
    tree = graph.queries[joint.name].tree
    if tree is None:
        return None, JointColumns()
    columns = output_columns(tree, upstream)
    if columns is None:
        return None, JointColumns(passes_on=passes_on(tree, upstream))
    schema = tuple(Field(column.name, column.type) for column in columns)
    return schema, JointColumns(tuple((column.name, column.origins) for column in columns))


def _source_schema(joint: CompiledJoint, table: Schema | None) -> Schema | None:
    ddl = joint.options.get("schema")
    if isinstance(ddl, str):
        table = parse_ddl(ddl)
    if not joint.columns:
        return table
    assert joint.sql is not None
    try:
        tree = read_query(joint.sql).tree
    except SqlError:
        tree = None
    columns = output_columns(tree, {joint.name: table}) if tree is not None else None
    types = [column.type for column in columns] if columns is not None else [None] * len(joint.columns)
    return tuple(Field(name, kind) for (name, _), kind in zip(joint.columns, types, strict=True))


def _sink(joint: CompiledJoint, graph: Graph, upstream: Mapping[str, Schema | None], found: Diagnostics) -> _Known:
    """A sink's columns are its upstream's; of several, those of the first, where all have them."""
    if len(upstream) == 1 and None in upstream.values():
        return _Known(None, JointColumns(passes_on=joint.upstream[0]))
    schemas = [schema for schema in upstream.values() if schema is not None]
    if len(schemas) < len(upstream):
        return _Known()
    kinds = [{field.name.lower(): field.type for field in schema} for schema in schemas]
    conflict = _conflict(joint.upstream, kinds)
    if conflict is not None:
        found.warning(graph.joints[joint.name], "RVT-317", conflict, key="upstream")
        return _Known()
    schema = tuple(Field(f.name, _agreed(f, kinds)) for f in schemas[0])
    names = [{field.name.lower(): field.name for field in schema} for schema in schemas]
    origins = tuple(
        (f.name, frozenset((u, n[f.name.lower()]) for u, n in zip(joint.upstream, names, strict=True))) for f in schema
    )
    return _Known(schema, JointColumns(origins))


def _agreed(field: Field, kinds: list[dict[str, str | None]]) -> str | None:
    return field.type if all(kind[field.name.lower()] == field.type for kind in kinds) else None


def _conflict(names: tuple[str, ...], kinds: list[dict[str, str | None]]) -> str | None:
    """What the first upstream and another disagree about, as a sentence."""
    first, base = names[0], kinds[0]
    for name, other in zip(names[1:], kinds[1:], strict=True):
        alone = sorted(set(base) ^ set(other))
        if alone:
            return f"{first} and {name} have different columns: only one of them has {', '.join(alone)}"
        apart = [c for c in sorted(base) if base[c] and other[c] and base[c] != other[c]]
        if apart:
            types = "; ".join(f"{column} is {base[column]} and {other[column]}" for column in apart)
            return f"{first} and {name} have different types: {types}"
    return None


def _check_names(
    joints: Mapping[str, CompiledJoint], graph: Graph, known: Mapping[str, _Known], found: Diagnostics
) -> None:
    """RVT-316 where what is stored or written repeats a column; a sink's error stands at the query before it."""
    stored = [j.name for j in joints.values() if j.name == j.group and j.type not in (SOURCE, SINK)]
    written = [u for j in joints.values() if j.type == SINK for u in j.upstream]
    for name in sorted({*stored, *written}):
        counted = Counter(field.name.lower() for field in known[name].schema or ())
        repeated = [column for column, times in counted.items() if times > 1]
        if repeated:
            message = f"the result has more than one column named {', '.join(repeated)}"
            found.error(graph.joints[name], "RVT-316", message, key="sql")


def _confidence(joint: CompiledJoint, schema: Schema | None, seen: Container[str]) -> str:
    """``seen`` are the sources whose columns are as the data has them; a sink takes its upstream's confidence."""
    if schema is None:
        return NONE
    if any(field.type is None for field in schema):
        return PARTIAL
    read = joint.upstream if joint.type == SINK else (joint.name,)
    return INTROSPECTED if all(name in seen for name in read) else INFERRED
