"""The columns of each joint and what they are made from, as far as declarations and queries tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.joints import ColumnLineage
from rivet_dagster.compiler.known_columns import Inferred, Known, KnownColumns, schema_text
from rivet_dagster.compiler.lineage import JointColumns, trace
from rivet_dagster.compiler.unknown_columns import check_checks, check_query, check_source
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint
from rivet_dagster.model.schema import CONFIDENCES, INFERRED, INTROSPECTED, NONE, PARTIAL, Field, Schema
from rivet_dagster.sql.columns import output_columns, passes_on
from rivet_dagster.sql.dialect import SqlError, read_query
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.type_names import parse_ddl

_SAME_COLUMNS = "Give the template the same columns, of the same types, in each of its cases."


@dataclass(frozen=True, slots=True)
class JointSchema:
    """The columns of a joint, their confidence as ``model.schema`` tells, and where they come from."""

    schema: Schema | None
    confidence: str
    lineage: tuple[ColumnLineage, ...]


def infer_schemas(
    graph: Graph, fusion: Fusion, found: Diagnostics, cache: CompileCache, introspection: Introspection
) -> dict[str, JointSchema]:
    """Return each joint's columns as far as they are known; RVT-316, RVT-315 and RVT-317 (warnings), RVT-327.

    What follows from columns that catalogs told earlier, and not now, makes a joint doubtful: its errors are warnings.
    """
    columns = KnownColumns(cache)
    tables = introspection.tables
    known: dict[str, Known] = {}
    for name in graph.order:
        if name in introspection.earlier or not found.doubtful.isdisjoint(graph.upstream[name]):
            found.doubtful.add(name)
        try:
            known[name] = _known(graph.joints[name], graph, known, found, columns, tables)
        except Unreadable as error:
            known[name] = Known()
            found.sql_warning(graph.joints[name], "RVT-315", "its schema and lineage are unknown", error)
    _check_names(graph, fusion, known, found)
    lineage = trace(graph.joints, graph.order, {name: one.columns for name, one in known.items()})
    told = {name for name in tables if name in known and not any(text for _, text in graph.joints[name].columns)}
    check_checks(graph, {name: one.schema for name, one in known.items()}, found)
    confidence = _confidences(graph, known, told)
    return {name: JointSchema(one.schema, confidence[name], lineage[name]) for name, one in known.items()}


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
    first = columns.of(joint, graph.sql(joint.name), upstream, lambda: _inferred(joint, query, graph, upstream, found))
    if later is None:
        return first
    incremental = columns.of(joint, later.text, upstream, lambda: _inferred(joint, later, graph, upstream, found))
    conflict = _conflict(("the first run", "a later one"), [_kinds(first.schema), _kinds(incremental.schema)])
    if None in (first.schema, incremental.schema) or conflict is None:
        return first
    found.warning(joint, "RVT-317", conflict, key="sql", remediation=_SAME_COLUMNS)
    return Known(in_conflict=True)


def _inferred(
    joint: Joint, query: KnownQuery | None, graph: Graph, known: Mapping[str, Known], found: Diagnostics
) -> Inferred | None:
    """None where the joint names columns that are not there."""
    upstream = {name: one.schema for name, one in known.items()}
    if joint.type == SOURCE:
        table = _table(joint, upstream[joint.name])
        if check_source(joint, table, found):
            return None
        return _source_schema(joint, graph.sql(joint.name), table), (), None
    tree = query.tree if query is not None else None
    if query is None or tree is None:
        return None, (), None
    columns, names_unknown = check_query(joint, query, upstream, found)
    if names_unknown:
        return None
    if columns is None:
        return None, (), passes_on(tree, upstream)
    origins = [(column.name, None if column.origins is None else sorted(column.origins)) for column in columns]
    return tuple(Field(column.name, column.type) for column in columns), origins, None


def _table(joint: Joint, told: Schema | None) -> Schema | None:
    """The columns of a source's table: declared, else as its catalog told them."""
    ddl = joint.options.get("schema")
    return parse_ddl(ddl) if isinstance(ddl, str) else told


def _source_schema(joint: Joint, sql: str | None, table: Schema | None) -> Schema | None:
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
    """A sink's columns are its upstream's. Several must agree, so what is known of any of them holds for all."""
    schemas = {name: known.schema for name, known in upstream.items() if known.schema is not None}
    if not schemas:
        return Known(None, JointColumns(passes_on=next(iter(upstream)))) if len(upstream) == 1 else Known()
    kinds = [_kinds(schema) for schema in schemas.values()]
    conflict = _conflict(tuple(schemas), kinds)
    if conflict is not None:
        found.warning(joint, "RVT-317", conflict, key="upstream")
        return Known(in_conflict=True)
    first = next(iter(schemas.values()))
    spelled = {name: {field.name.lower(): field.name for field in schema} for name, schema in schemas.items()}
    origins = [(f.name, sorted((u, spelled.get(u, {}).get(f.name.lower(), f.name)) for u in upstream)) for f in first]
    return columns.made_of(schema_text(tuple(Field(f.name, _told(f, kinds)) for f in first)), origins)


def _kinds(schema: Schema | None) -> dict[str, str | None]:
    return {field.name.lower(): field.type for field in schema or ()}


def _told(field: Field, kinds: list[dict[str, str | None]]) -> str | None:
    return next((kind[field.name.lower()] for kind in kinds if kind[field.name.lower()] is not None), None)


def _conflict(names: tuple[str, ...], kinds: list[dict[str, str | None]]) -> str | None:
    """Describe the first disagreement of two upstreams."""
    first, base = names[0], kinds[0]
    teller = {column: (first, kind) for column, kind in base.items() if kind}
    for name, other in zip(names[1:], kinds[1:], strict=True):
        alone = sorted(set(base) ^ set(other))
        if alone:
            return f"{first} and {name} have different columns: only one of them has {', '.join(alone)}"
        apart = [column for column in sorted(teller) if other[column] and other[column] != teller[column][1]]
        if apart:
            one = teller[apart[0]][0]
            types = [f"{c} is {teller[c][1]} and {other[c]}" for c in apart if teller[c][0] == one]
            return f"{one} and {name} have different types: {'; '.join(types)}"
        teller = {column: (name, kind) for column, kind in other.items() if kind} | teller
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


def _confidences(graph: Graph, known: Mapping[str, Known], told: Collection[str]) -> dict[str, str]:
    """The confidence of each joint; ``told`` are the sources whose columns are as their catalogs have them."""
    confidence: dict[str, str] = {}
    for name in graph.order:
        one = known[name]
        if one.in_conflict:
            confidence[name] = PARTIAL
        elif graph.joints[name].type == SINK:
            confidence[name] = min((confidence[u] for u in graph.upstream[name]), key=CONFIDENCES.index)
        elif one.schema is None:
            confidence[name] = NONE
        elif any(field.type is None for field in one.schema):
            confidence[name] = PARTIAL
        else:
            confidence[name] = INTROSPECTED if name in told else INFERRED
    return confidence
