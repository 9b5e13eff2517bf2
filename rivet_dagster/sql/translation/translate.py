"""The translation of one query of Spark's SQL for another engine, or what of it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import ErrorLevel, exp

from rivet_dagster.sql.columns.from_clause import Columns
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.translation.from_clause import Table
from rivet_dagster.sql.translation.model import Named, NotProven, Refusal, Translation
from rivet_dagster.sql.translation.proven import Support, support_of
from rivet_dagster.sql.translation.queries import Queries
from rivet_dagster.sql.translation.spark_types import VOID
from rivet_dagster.sql.translation.verbatim import read_verbatim


def translate(sql: str, support: str | Support, tables: Mapping[str, Columns]) -> Translation:
    """Return ``sql`` as the engine of a list runs it with Spark's rows, or the constructs for which that is not proven.

    ``tables`` are those that the query may read, by name; None for columns that are not known, of which nothing can be
    said that depends on their types.

    >>> from rivet_dagster.sql.columns.scope import Column
    >>> tables = {"t": (Column("a", "int"),)}
    >>> translate("SELECT a % 2 AS odd FROM t", "sail", tables).sql
    'SELECT `t`.`a` % CAST(2 AS INT) AS `odd` FROM `t` AS `t`'
    >>> translate("SELECT\\n hash(a) AS h FROM t", "duckdb", tables).refusals[0]
    Refusal(line=2, construct='hash()', remedy='')
    """
    known = support_of(support) if isinstance(support, str) else support
    try:
        tree = read_verbatim(sql)
    except SqlError as error:
        return Translation("", (Refusal(error.line or 1, f"text that {error}", ""),))
    queries = Queries(known)
    made: exp.Expr | None = None
    try:
        with translate_parser_errors():
            made, columns = _translated(queries, tree, tables)
    except SqlError as error:
        queries.refusals.append(Refusal(1, f"text that {error}", ""))
    if made is None or queries.refusals:
        return Translation("", tuple(sorted(queries.refusals, key=lambda refusal: refusal.line)))
    with translate_parser_errors():
        return Translation(made.sql(dialect=known.dialect, unsupported_level=ErrorLevel.RAISE))


def _column(name: str, kind: str | None) -> Named:
    plain = kind is None or "struct" in kind
    return Named(name, kind if plain or kind is None else kind.lower(), exp.Null())


def _translated(
    queries: Queries, tree: exp.Expr, tables: Mapping[str, Columns]
) -> tuple[exp.Expr | None, Sequence[Named] | None]:
    visible = {
        name.lower(): Table(name, None if columns is None else [_column(c[0], c[1]) for c in columns])
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
