"""RVT-327: columns that queries, sources and checks name and that certainly do not exist."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from rivet_dagster.checks.registry import kind_of
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import AUDIT, Check
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.sql.dialect import SqlError, read_query
from rivet_dagster.sql.from_clause import Columns
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.projection import projection
from rivet_dagster.sql.unknown_columns import UnknownColumn, judged_columns, unknown_columns

_CODE = "RVT-327"


def check_query(
    joint: Joint, query: KnownQuery, tables: Mapping[str, Schema | None], diagnostics: Diagnostics
) -> tuple[Columns, bool]:
    """Return the columns of a readable query, and whether it names a column missing in ``tables``, its upstream."""
    assert query.tree is not None
    columns, unknown = judged_columns(query.text, query.tree, tables)
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
