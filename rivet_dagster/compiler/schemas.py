"""The columns of each joint and their origins, as far as declarations and queries determine them.

RVT-327: columns that queries, sources and checks name and that certainly do not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.checks.contract import kind_of
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.joints import ColumnLineage
from rivet_dagster.compiler.lineage import Inferred, JointColumns, Known, KnownColumns, may_differ, schema_text, trace
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import AUDIT, Check
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint
from rivet_dagster.model.schema import CONFIDENCES, INFERRED, INTROSPECTED, NONE, PARTIAL, Field, Introspection, Schema
from rivet_dagster.model.text_lines import Stretch
from rivet_dagster.sql.columns.from_clause import Columns
from rivet_dagster.sql.columns.output_columns import output_columns, passes_on
from rivet_dagster.sql.columns.type_names import parse_ddl
from rivet_dagster.sql.columns.unknown_columns import UnknownColumn, judged_columns, unknown_columns
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import SqlError, read_query
from rivet_dagster.sql.parsing.known_query import KnownQuery
from rivet_dagster.sql.source_query import projection

_EARLIER = "as the sources were when their catalogs were last asked"
_SAME_COLUMNS = "Give the template the same columns, of the same types, in each of its cases."


@dataclass(frozen=True, slots=True)
class JointSchema:
    """The columns of a joint, their confidence (see ``model.schema``) and their lineage.

    ``batch`` are the columns of the rows that a run computes, to which a published history adds some.
    """

    schema: Schema | None
    confidence: str
    lineage: Sequence[ColumnLineage]
    batch: Schema | None


def infer_schemas(
    graph: Graph, fusion: Fusion, diagnostics: Diagnostics, cache: CompileCache, introspection: Introspection
) -> dict[str, JointSchema]:
    """Return each joint's columns as far as they are known; report RVT-316, RVT-327, and warn of RVT-315, RVT-317."""
    tables = introspection.tables
    batches, known = infer_columns(graph, diagnostics, cache, introspection)
    _check_names(graph, fusion, batches, diagnostics)
    lineage = trace(graph.joints, graph.order, {name: entry.columns for name, entry in known.items()})
    introspected = {
        name for name in tables if name in known and not any(text for _, text in graph.joints[name].columns)
    }
    computed = {name: entry.schema for name, entry in batches.items()}
    check_checks(graph, computed, {name: entry.schema for name, entry in known.items()}, diagnostics)
    confidence = _confidences(graph, batches, introspected)
    return {
        name: JointSchema(entry.schema, confidence[name], lineage[name], computed[name])
        for name, entry in known.items()
    }


def infer_columns(
    graph: Graph, diagnostics: Diagnostics, cache: CompileCache, introspection: Introspection
) -> tuple[dict[str, Known], dict[str, Known]]:
    """Return the columns of each joint's batch, and those that its readers find, with their origins in its upstream.

    Reports RVT-327, and warns of RVT-315, RVT-317.

    Where a run may find other columns, because an earlier introspection gave them, or a published table keeps columns
    of its own, errors about them are warnings.
    """
    columns = KnownColumns(cache)
    tables = introspection.tables
    batches: dict[str, Known] = {}
    known: dict[str, Known] = {}  # as readers find the columns
    for name in graph.order:
        _doubt(graph.joints[name], graph.upstream[name], introspection, diagnostics)
        try:
            batches[name] = batch_of(graph.joints[name], graph, known, diagnostics, columns, tables)
        except UnreadableSql as error:
            batches[name] = Known()
            diagnostics.sql_warning(
                graph.joints[name], "RVT-315", "its schema and lineage are unknown", error, _lines(name, graph)
            )
        known[name] = columns.in_table(graph.joints[name], batches[name])
        for query in graph.renderings(name) if name in graph.queries else ():
            query.forget_tree()
    return batches, known


def _doubt(joint: Joint, upstream: Collection[str], introspection: Introspection, diagnostics: Diagnostics) -> None:
    """Record whether a run may find other columns in what the joint reads, or its readers in its table."""
    doubts = diagnostics.doubtful_tables
    reasons = [doubts[name] for name in upstream if name in doubts] if doubts else []
    reasons = [_EARLIER] if joint.name in introspection.earlier else reasons
    if reasons:
        diagnostics.doubtful[joint.name] = diagnostics.doubtful_tables[joint.name] = reasons[0]
    elif joint.publishes and may_differ(joint.write_strategy.plan):
        diagnostics.doubtful_tables[joint.name] = f"unless the table of '{joint.name}' has it from before"


def _lines(name: str, graph: Graph) -> tuple[Stretch, ...]:
    return graph.queries[name].lines if name in graph.queries else ()


def batch_of(
    joint: Joint,
    graph: Graph,
    known: Mapping[str, Known],
    diagnostics: Diagnostics,
    columns: KnownColumns,
    tables: Mapping[str, Schema],
) -> Known:
    """Return the columns of a joint's batch, given those that it finds in its upstream. Raise UnreadableSql."""
    renderings = graph.renderings(joint.name) if joint.type == SQL else ()
    if joint.type == PYTHON or any(query.unreadable is not None for query in renderings):
        return Known()
    if joint.type == SOURCE:
        table = tables.get(joint.name)
        upstream = {joint.name: Known(table, text=schema_text(table))}
    else:
        upstream = {name: known[name] for name in graph.upstream[joint.name]}
    if joint.type == SINK:
        return _sink(joint, upstream, columns, diagnostics)
    query, later = graph.queries.get(joint.name), graph.incremental.get(joint.name)
    first = columns.of(
        joint, graph.sql(joint.name), upstream, lambda: _inferred(joint, query, graph, upstream, diagnostics)
    )
    if later is None:
        return first
    incremental = columns.of(joint, later.text, upstream, lambda: _inferred(joint, later, graph, upstream, diagnostics))
    conflict = _conflict(("the first run", "a later one"), [_kinds(first.schema), _kinds(incremental.schema)])
    if None in (first.schema, incremental.schema) or conflict is None:
        return first
    diagnostics.warning(joint, "RVT-317", conflict, key="sql", remediation=_SAME_COLUMNS)
    return Known(in_conflict=True)


def _inferred(
    joint: Joint, query: KnownQuery | None, graph: Graph, known: Mapping[str, Known], diagnostics: Diagnostics
) -> Inferred | None:
    """Infer a joint's columns; None where it names columns that do not exist."""
    upstream = {name: entry.schema for name, entry in known.items()}
    if joint.type == SOURCE:
        table = _table(joint, upstream[joint.name])
        if check_source(joint, table, diagnostics):
            return None
        return _source_schema(joint, graph.sql(joint.name), table), (), None
    tree = query.tree if query is not None else None
    if query is None or tree is None:
        return None, (), None
    columns, names_unknown = check_query(joint, query, upstream, diagnostics)
    if names_unknown:
        return None
    if columns is None:
        return None, (), passes_on(tree, upstream)
    origins = [(column.name, None if column.origins is None else sorted(column.origins)) for column in columns]
    return tuple(Field(column.name, column.type) for column in columns), origins, None


def _table(joint: Joint, introspected: Schema | None) -> Schema | None:
    """Return the columns of a source's table: the declared ones, else those that its catalog returned."""
    ddl = joint.options.get("schema")
    return parse_ddl(ddl) if isinstance(ddl, str) else introspected


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


def _sink(joint: Joint, upstream: Mapping[str, Known], columns: KnownColumns, diagnostics: Diagnostics) -> Known:
    """Return a sink's columns: those of its upstreams, which must agree, so that one known type holds for all."""
    schemas = {name: known.schema for name, known in upstream.items() if known.schema is not None}
    if not schemas:
        return Known(None, JointColumns(passes_on=next(iter(upstream)))) if len(upstream) == 1 else Known()
    kinds = [_kinds(schema) for schema in schemas.values()]
    conflict = _conflict(tuple(schemas), kinds)
    if conflict is not None:
        diagnostics.warning(joint, "RVT-317", conflict, key="upstream")
        return Known(in_conflict=True)
    first = next(iter(schemas.values()))
    spelled = {name: {field.name.lower(): field.name for field in schema} for name, schema in schemas.items()}
    origins = [(f.name, sorted((u, spelled.get(u, {}).get(f.name.lower(), f.name)) for u in upstream)) for f in first]
    return columns.made_of(schema_text(tuple(Field(f.name, _known_type(f, kinds)) for f in first)), origins)


def _kinds(schema: Schema | None) -> dict[str, str | None]:
    return {field.name.lower(): field.type for field in schema or ()}


def _known_type(field: Field, kinds: list[dict[str, str | None]]) -> str | None:
    return next((kind[field.name.lower()] for kind in kinds if kind[field.name.lower()] is not None), None)


def _conflict(names: tuple[str, ...], kinds: list[dict[str, str | None]]) -> str | None:
    """Describe the first disagreement of two upstreams, None where all agree."""
    first, base = names[0], kinds[0]
    typed = {column: (first, kind) for column, kind in base.items() if kind}
    for name, other in zip(names[1:], kinds[1:], strict=True):
        unshared = sorted(set(base) ^ set(other))
        if unshared:
            return f"{first} and {name} have different columns: only one of them has {', '.join(unshared)}"
        different = [column for column in sorted(typed) if other[column] and other[column] != typed[column][1]]
        if different:
            earlier = typed[different[0]][0]
            types = [f"{c} is {typed[c][1]} and {other[c]}" for c in different if typed[c][0] == earlier]
            return f"{earlier} and {name} have different types: {'; '.join(types)}"
        typed = {column: (name, kind) for column, kind in other.items() if kind} | typed
    return None


def _check_names(graph: Graph, fusion: Fusion, known: Mapping[str, Known], diagnostics: Diagnostics) -> None:
    """Report RVT-316 where stored or written rows repeat a column; for a sink, at the query of its upstream."""
    joints = graph.joints.values()
    stored = [j.name for j in joints if j.name == fusion.groups[j.name] and j.type not in (SOURCE, SINK)]
    written = [u for j in joints if j.type == SINK for u in graph.upstream[j.name]]
    for name in sorted({*stored, *written}):
        columns = [field.name.lower() for field in known[name].schema or ()]
        if len(set(columns)) < len(columns):
            repeated = [column for column, times in Counter(columns).items() if times > 1]
            message = f"the result has more than one column named {', '.join(repeated)}"
            diagnostics.error(graph.joints[name], "RVT-316", message, key="sql")


def _confidences(graph: Graph, known: Mapping[str, Known], introspected: Collection[str]) -> dict[str, str]:
    """Return the confidence of each joint; ``introspected`` are the sources whose columns their catalogs returned."""
    confidence: dict[str, str] = {}
    for name in graph.order:
        entry = known[name]
        if entry.in_conflict:
            confidence[name] = PARTIAL
        elif graph.joints[name].type == SINK:
            confidence[name] = min((confidence[u] for u in graph.upstream[name]), key=CONFIDENCES.index)
        elif entry.schema is None:
            confidence[name] = NONE
        elif None in [field.type for field in entry.schema]:
            confidence[name] = PARTIAL
        else:
            confidence[name] = INTROSPECTED if name in introspected else INFERRED
    return confidence


_CODE = "RVT-327"


def check_query(
    joint: Joint, query: KnownQuery, tables: Mapping[str, Schema | None], diagnostics: Diagnostics
) -> tuple[Columns, bool]:
    """Return the columns of a readable query, and whether it names a column missing in ``tables``, its upstream."""
    assert query.tree is not None
    columns, unknown = judged_columns(query.text, query.tree, tables)
    # The errors tell lines, and the query's own tree has no positions.
    with_positions = read_query(query.text).tree if unknown else None
    if with_positions is not None:
        columns, unknown = judged_columns(query.text, with_positions, tables)
    for column in unknown:
        diagnostics.in_sql(joint, _CODE, _message(column), column.line, lines=query.lines)
    return columns, bool(unknown)


def check_source(joint: Joint, table: Schema | None, diagnostics: Diagnostics) -> bool:
    """Return whether ``columns`` or ``filter`` of a source name a column that its ``table`` does not have."""
    unknown = {
        "columns": _in_text(projection(joint.name, joint.columns, None, None), {joint.name: table}),
        "filter": _in_text(projection(joint.name, (), joint.filter, None), {joint.name: table}),
    }
    for key, columns in unknown.items():
        for column in columns:
            diagnostics.error(joint, _CODE, _message(column), key)
    return any(unknown.values())


def check_checks(
    graph: Graph, batches: Mapping[str, Schema | None], read: Mapping[str, Schema | None], diagnostics: Diagnostics
) -> None:
    """Report columns that a check names and that the relation they belong to lacks: the checked rows, or a joint.

    ``batches`` are the columns that joints compute, ``read`` those that their readers find.
    """
    for joint in graph.joints.values():
        for check in joint.quality:
            tables = {name: read.get(name) for name in check.reads} | {joint.name: _judged(joint, check, batches)}
            doubts = (diagnostics.doubtful_tables.get(name) for name in check.reads)
            doubt = diagnostics.doubtful.get(joint.name) or next(filter(None, doubts), None)
            for column in kind_of(check).unknown_columns(joint.name, tables):
                line = check.line
                if column.line is not None and check.sql_line is not None:
                    line = check.sql_line + column.line - 1
                message = f"check {check.name}: {_message(column)}"
                diagnostics.about_columns(Diagnostic(_CODE, message, joint.name, check.file, line), doubt)


def _judged(joint: Joint, check: Check, schemas: Mapping[str, Schema | None]) -> Schema | None:
    """Return the columns of the checked rows; None where the table may have other columns than the batch."""
    schema, strategy = schemas.get(joint.name), joint.write_strategy
    if schema is None or check.phase != AUDIT or not joint.publishes or strategy.plan.replaces_table:
        return schema
    if strategy.on_schema_change != "fail":
        return None
    return (*schema, *(Field(column) for _, column in strategy.validity))


def _in_text(sql: str, tables: Mapping[str, Schema | None]) -> tuple[UnknownColumn, ...]:
    with suppress(SqlError):  # reported elsewhere, or left to Spark
        tree = read_query(sql).tree
        return unknown_columns(sql, tree, tables) if tree is not None else ()
    return ()


def _message(column: UnknownColumn) -> str:
    return f"there is no column '{column.name}'{column.hint}"
