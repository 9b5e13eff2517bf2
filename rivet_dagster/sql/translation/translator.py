"""The translation of one query of Spark's SQL for another engine, or what of it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import ErrorLevel, exp

from rivet_dagster.sql.columns.from_clause import Columns
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.translation.from_clause import VisibleTable
from rivet_dagster.sql.translation.model import Named, NotProven, Refusal, Translation
from rivet_dagster.sql.translation.proven import Support, support_of
from rivet_dagster.sql.translation.queries import Queries
from rivet_dagster.sql.translation.spark_types import VOID
from rivet_dagster.sql.translation.verbatim import read_verbatim

Given = Mapping[str, Iterable[tuple[str, str | None]] | Columns]


def translate(
    sql: str, support: str | Support, tables: Given, parameters: Mapping[str, str | None] | None = None
) -> Translation:
    """Return ``sql`` as the engine of a list runs it with Spark's rows, or the constructs for which that is not proven.

    ``tables`` are those that the query may read, by name: pairs of names and types, or None for columns that are not
    known, of which nothing can be said that depends on their types. ``parameters`` are the types of parameters.

    >>> tables = {"t": (("a", "int"),)}
    >>> translate("SELECT a % 2 AS odd FROM t", "sail", tables).sql
    'SELECT `t`.`a` % 2 AS `odd` FROM `t` AS `t`'
    >>> translate("SELECT\\n hash(a) AS h FROM t", "duckdb", tables).refusals[0]
    Refusal(line=2, construct='hash()', remedy='', certain=True)
    """
    known = support_of(support) if isinstance(support, str) else support
    try:
        tree = read_verbatim(sql)
    except SqlError as error:
        return Translation("", (Refusal(error.line or 1, f"text that {error}", ""),))
    queries = Queries(known, parameters or {})
    made: exp.Expr | None = None
    columns: Sequence[Named] | None = None
    try:
        with translate_parser_errors():
            made, columns = _translated(queries, tree, tables)
            text = made.sql(dialect=known.dialect, unsupported_level=ErrorLevel.RAISE) if made is not None else ""
    except SqlError as error:
        queries.refusals.append(Refusal(1, f"text that {error}", ""))
    found = None if columns is None else tuple((column.name, column.type) for column in columns)
    if made is None or queries.refusals:
        return Translation("", tuple(sorted(queries.refusals, key=lambda refusal: refusal.line)), found)
    return Translation(text, (), found)


def _column(name: str, kind: str | None) -> Named:
    return Named(name, kind.lower() if kind is not None and "struct" not in kind else kind, exp.Null())


def _translated(queries: Queries, tree: exp.Expr, tables: Given) -> tuple[exp.Expr | None, Sequence[Named] | None]:
    visible = {
        name.lower(): VisibleTable(name, None if columns is None else [_column(c[0], c[1]) for c in columns])
        for name, columns in tables.items()
    }
    try:
        made, columns = queries.query(tree, visible, None)
        if any(column.type == VOID for column in columns or ()):
            raise NotProven("a column of NULL without a type", tree, "Cast it to a type.")
    except NotProven as refused:
        queries.refuse(refused)
        return None, None
    return made, columns
