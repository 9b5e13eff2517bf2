"""RVT-327: columns that queries, sources and checks name and that are surely not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import AUDIT, Check
from rivet_dagster.model.joint import SINK, Joint
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.check_query import read_check
from rivet_dagster.sql.checks import names_of_a_pass
from rivet_dagster.sql.dialect import SqlError, quoted, read_query
from rivet_dagster.sql.from_clause import Columns
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.projection import projection
from rivet_dagster.sql.unknown_columns import UnknownColumn, judged_columns, unknown_column, unknown_columns

_CODE = "RVT-327"


def check_query(
    joint: Joint, query: KnownQuery, tables: Mapping[str, Schema | None], found: Diagnostics
) -> tuple[Columns, bool]:
    """Return the columns of a readable query, and whether it names one that ``tables``, its upstream, do not have."""
    assert query.tree is not None
    columns, unknown = judged_columns(query.text, query.tree, tables)
    for one in unknown:
        found.in_sql(joint, _CODE, _message(one), one.line)
    return columns, bool(unknown)


def check_source(joint: Joint, table: Schema | None, found: Diagnostics) -> bool:
    """Whether ``columns`` or ``filter`` of a source name a column that its ``table`` does not have."""
    unknown = {
        "columns": _in_text(projection(joint.name, joint.columns, None, None), {joint.name: table}),
        "filter": _in_text(projection(joint.name, (), joint.filter, None), {joint.name: table}),
    }
    for key, columns in unknown.items():
        for one in columns:
            found.error(joint, _CODE, _message(one), key)
    return any(unknown.values())


def check_checks(graph: Graph, schemas: Mapping[str, Schema | None], found: Diagnostics) -> None:
    """An error for each column that a check names and that the rows it judges, or others it reads, do not have."""
    for joint in graph.joints.values():
        for check in joint.quality:
            tables = {name: schemas.get(name) for name in check.reads} | {joint.name: _judged(joint, check, schemas)}
            doubtful = bool(found.doubtful.intersection((joint.name, *check.reads)))
            for one in _unknown(joint.name, check, tables):
                line = check.line
                if one.line is not None and check.sql_line is not None:
                    line = check.sql_line + one.line - 1
                message = f"check {check.name}: {_message(one)}"
                found.about_columns(Diagnostic(_CODE, message, joint.name, check.file, line), doubtful)


def _judged(joint: Joint, check: Check, schemas: Mapping[str, Schema | None]) -> Schema | None:
    """The columns of the rows that a check judges; None where the table may have others than the batch."""
    schema, strategy = schemas.get(joint.name), joint.write_strategy
    if schema is None or check.phase != AUDIT or joint.type != SINK or strategy.mode == "replace":
        return schema
    if strategy.on_schema_change != "fail":
        return None
    return (*schema, *(Field(column) for _, column in strategy.validity))


def _unknown(joint: str, check: Check, tables: Mapping[str, Schema | None]) -> Iterator[UnknownColumn]:
    if check.kind == "expression":
        assert check.sql is not None
        text = f"SELECT * FROM {quoted(joint)} WHERE {in_parentheses(check.sql)}"
        for one in _in_text(text, tables):
            if not names_of_a_pass(one.name):
                yield UnknownColumn(one.name, one.line - 1 if one.line is not None else None, one.hint)
    elif check.kind == "custom":
        assert check.sql is not None
        with suppress(SqlError):  # an error already, or Spark's to judge
            query = read_check(check.sql, joint)
            yield from unknown_columns(query.text, query.tree, tables) if query.tree is not None else ()
    else:
        named = [(joint, column) for column in check.columns] + ([check.to] if check.to is not None else [])
        for relation, column in named:
            schema = tables.get(relation)
            missing = unknown_column(column, relation, schema) if schema is not None else None
            if missing is not None:
                yield missing


def _in_text(sql: str, tables: Mapping[str, Schema | None]) -> tuple[UnknownColumn, ...]:
    with suppress(SqlError):  # an error already, or Spark's to judge
        tree = read_query(sql).tree
        return unknown_columns(sql, tree, tables) if tree is not None else ()
    return ()


def _message(column: UnknownColumn) -> str:
    return f"there is no column '{column.name}'{column.hint}"
