"""The columns of each joint and what they are made from, as far as declarations and queries tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion, joint_sql
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.known_columns import Inferred, Known, KnownColumns, schema_text
from rivet_dagster.compiler.lineage import JointColumns, trace
from rivet_dagster.compiler.plan import ColumnLineage
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.schema import INFERRED, INTROSPECTED, NONE, PARTIAL, Field, Schema
from rivet_dagster.sql.columns import output_columns, passes_on
from rivet_dagster.sql.dialect import SqlError, read_query
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.type_names import parse_ddl

_SAME_COLUMNS = "Give the template the same columns, of the same types, in each of its cases."


@dataclass(frozen=True, slots=True)
class JointSchema:
    """The columns of a joint, how sure they are, and where they come from."""

    schema: Schema | None
    confidence: str
    lineage: tuple[ColumnLineage, ...]


def infer_schemas(
    graph: Graph, fusion: Fusion, found: Diagnostics, memo: Memo, tables: Mapping[str, Schema]
) -> dict[str, JointSchema]:
    """What is known of each joint's columns; RVT-316, RVT-317 (a warning).

    ``tables`` are the columns of sources' tables as their catalogs told them.
    """
    columns = KnownColumns(memo)
    known: dict[str, Known] = {}
    for name in graph.order:
        known[name] = _known(graph.joints[name], graph, known, found, columns, tables)
    _check_names(graph, fusion, known, found)
    lineage = trace(graph.joints, graph.order, {name: one.columns for name, one in known.items()})
    seen = {name for name in tables if name in known and not any(text for _, text in graph.joints[name].columns)}
    return {
        name: JointSchema(one.schema, _confidence(name, graph, one.schema, seen), lineage[name])
        for name, one in known.items()
    }


def _known(
    joint: Joint,
    graph: Graph,
    known: Mapping[str, Known],
    found: Diagnostics,
    columns: KnownColumns,
    tables: Mapping[str, Schema],
) -> Known:
    renderings = graph.renderings(joint.name) if joint.type == SQL else ()
    if joint.type == PYTHON or any(query.unreadable is not None for query in renderings):
        return Known()
    if joint.type == SOURCE:
        table = tables.get(joint.name)
        upstream = {joint.name: Known(table, text=schema_text(table))}
    else:
        upstream = {name: known[name] for name in graph.upstream[joint.name]}
    if joint.type == SINK:
        return _sink(joint, upstream, columns, found)
    query, later = graph.queries.get(joint.name), graph.incremental.get(joint.name)
    first = columns.of(joint, joint_sql(joint.name, graph), upstream, lambda: _inferred(joint, query, graph, upstream))
    if later is None:
        return first
    incremental = columns.of(joint, later.text, upstream, lambda: _inferred(joint, later, graph, upstream))
    conflict = _conflict(("the first run", "a later one"), [_kinds(first.schema), _kinds(incremental.schema)])
    if None in (first.schema, incremental.schema) or conflict is None:
        return first
    found.warning(joint, "RVT-317", conflict, key="sql", remediation=_SAME_COLUMNS)
    return Known()


def _inferred(joint: Joint, query: KnownQuery | None, graph: Graph, known: Mapping[str, Known]) -> Inferred:
    upstream = {name: one.schema for name, one in known.items()}
    if joint.type == SOURCE:
        return _source_schema(joint, joint_sql(joint.name, graph), upstream[joint.name]), (), None
    tree = query.tree if query is not None else None
    if tree is None:
        return None, (), None
    columns = output_columns(tree, upstream)
    if columns is None:
        return None, (), passes_on(tree, upstream)
    origins = [(column.name, None if column.origins is None else sorted(column.origins)) for column in columns]
    return tuple(Field(column.name, column.type) for column in columns), origins, None


def _source_schema(joint: Joint, sql: str | None, table: Schema | None) -> Schema | None:
    ddl = joint.options.get("schema")
    if isinstance(ddl, str):
        table = parse_ddl(ddl)
    if not joint.columns:
        return table
    assert sql is not None
    try:
        tree = read_query(sql).tree
    except SqlError:
        tree = None
    columns = output_columns(tree, {joint.name: table}) if tree is not None else None
    types = [column.type for column in columns] if columns is not None else [None] * len(joint.columns)
    return tuple(Field(name, kind) for (name, _), kind in zip(joint.columns, types, strict=True))


def _sink(joint: Joint, upstream: Mapping[str, Known], columns: KnownColumns, found: Diagnostics) -> Known:
    """A sink's columns are its upstream's; of several, those of the first, where all have them."""
    names = tuple(upstream)
    schemas = [known.schema for known in upstream.values() if known.schema is not None]
    if len(names) == 1 and not schemas:
        return Known(None, JointColumns(passes_on=names[0]))
    if len(schemas) < len(names):
        return Known()
    kinds = [_kinds(schema) for schema in schemas]
    conflict = _conflict(names, kinds)
    if conflict is not None:
        found.warning(joint, "RVT-317", conflict, key="upstream")
        return Known()
    spelled = [{field.name.lower(): field.name for field in schema} for schema in schemas]
    origins = [
        (f.name, sorted((u, s[f.name.lower()]) for u, s in zip(names, spelled, strict=True))) for f in schemas[0]
    ]
    return columns.made_of(schema_text(tuple(Field(f.name, _agreed(f, kinds)) for f in schemas[0])), origins)


def _kinds(schema: Schema | None) -> dict[str, str | None]:
    return {field.name.lower(): field.type for field in schema or ()}


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


def _check_names(graph: Graph, fusion: Fusion, known: Mapping[str, Known], found: Diagnostics) -> None:
    """RVT-316 where what is stored or written repeats a column; a sink's error stands at the query before it."""
    joints = graph.joints.values()
    stored = [j.name for j in joints if j.name == fusion.groups[j.name] and j.type not in (SOURCE, SINK)]
    written = [u for j in joints if j.type == SINK for u in graph.upstream[j.name]]
    for name in sorted({*stored, *written}):
        counted = Counter(field.name.lower() for field in known[name].schema or ())
        repeated = [column for column, times in counted.items() if times > 1]
        if repeated:
            message = f"the result has more than one column named {', '.join(repeated)}"
            found.error(graph.joints[name], "RVT-316", message, key="sql")


def _confidence(name: str, graph: Graph, schema: Schema | None, seen: Container[str]) -> str:
    """``seen`` are the sources whose columns are as the data has them; a sink takes its upstream's confidence."""
    if schema is None:
        return NONE
    if any(field.type is None for field in schema):
        return PARTIAL
    read = graph.upstream[name] if graph.joints[name].type == SINK else (name,)
    return INTROSPECTED if all(read_name in seen for read_name in read) else INFERRED
