"""Statements of Spark's SQL that PostgreSQL runs with the same result: those made here, and plain conditions of checks.

Only what is listed is translated: comparisons, logic, counts and extremes of columns. An author's queries are no such
statements; they are written in the database's own SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlglot import exp, parse_one

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.generated_statements import GeneratedStatement
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.postgres.histories import has_rows, rows_of_type

POSTGRES = "postgres"
"""The name of PostgreSQL's SQL, as sqlglot has it."""

Columns = Sequence[tuple[str, str]]
"""Pairs of name and type of Spark."""

_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Max, exp.Min, exp.Ordered)
"""Their results depend on the order of texts, which is that of bytes in Spark."""

_LISTED = frozenset(
    {
        *(exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Subquery, exp.Where, exp.Group, exp.Having, exp.Order),
        *(exp.Ordered, exp.Limit, exp.Distinct, exp.Exists, exp.Alias, exp.Identifier, exp.Column, exp.Star, exp.Paren),
        *(exp.Literal, exp.Boolean, exp.Null, exp.Placeholder, exp.DataType, exp.DataTypeParam),
        *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, *_ORDERED),
        *(exp.Add, exp.Sub, exp.Neg, exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Count, exp.CountIf, exp.Sum),
    }
)
_LISTED_OF_OURS = _LISTED | {
    *(exp.Cast, exp.Left, exp.Length, exp.Floor, exp.Div, exp.UnixSeconds, exp.Union, exp.Join, exp.Least),
    *(exp.Struct, exp.PropertyEQ, exp.ArgMin, exp.ArgMax, exp.AnyValue, exp.Filter, exp.Explode, exp.Array),
    *(exp.Window, exp.WindowSpec, exp.Lag, exp.Lead, exp.RowNumber, exp.Rank, exp.LogicalOr),
}

_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")
_AGE = "MAKE_DT_INTERVAL"
"""The function of Spark by which the check of freshness names an age in seconds, its last argument."""


class NotTranslatedError(SqlError):
    """What a statement has that is not listed."""


def spark_statement_for_postgres(
    sql: str,
    tables: Mapping[str, Columns],
    parameter: Callable[[str], str] = lambda name: f"${name}",
    row_type: str | None = None,
) -> str:
    """Return a statement in PostgreSQL's SQL, ``tables`` being the relations that it may read.

    ``parameter`` returns the text of the parameter of a name; ``row_type`` is the type of rows that are values of a
    statement of ours. Raises NotTranslatedError.

    >>> print(spark_statement_for_postgres("SELECT COUNT_IF(NOT (net > 0)) AS `n` FROM `a`", {"a": [("Net", "int")]}))
    SELECT COUNT(CASE WHEN NOT ("Net" > 0) THEN 1 END) AS "n" FROM "a"
    >>> spark_statement_for_postgres("SELECT LOWER(name) AS n FROM a", {})
    Traceback (most recent call last):
    rivet_dagster.sql.postgres.spark_statements.NotTranslatedError: LOWER
    """
    is_own = isinstance(sql, GeneratedStatement)
    with translate_parser_errors():
        tree = parse_one(sql, dialect=SPARK)
    if not isinstance(tree, exp.Query):
        raise NotTranslatedError("a statement that is no query")
    tree = tree.transform(_strict_casts, copy=False)
    _refuse_others(tree, _LISTED_OF_OURS if is_own else _LISTED)
    if has_rows(tree):
        if row_type is None:
            raise NotTranslatedError("STRUCT")
        tree = rows_of_type(tree, row_type)
    spelled = {name.lower(): name for columns in tables.values() for name, _ in columns}
    texts = {name.lower() for columns in tables.values() for name, kind in columns if kind == "string"}
    for node in reversed(list(tree.walk())):  # inner ones first
        translated = _translated(node, spelled, texts, parameter)
        if translated is not node:
            node.replace(translated)
    return tree.sql(POSTGRES)


def _strict_casts(node: exp.Expr) -> exp.Expr:
    """Return a cast of Spark as one that fails, which PostgreSQL's does, too."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this, to=node.to)
    return node


def _refuse_others(tree: exp.Expr, listed: Collection[type[exp.Expr]]) -> None:
    for node in tree.walk():
        if type(node) is exp.Literal and not node.is_string and not _NUMBER.fullmatch(node.name):
            raise NotTranslatedError(f"the number {node.name}")
        if type(node) in listed or _is_age(node) or type(node) is exp.CurrentTimestamp or _is_day(node):
            continue
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else None
        raise NotTranslatedError(name or node.sql(SPARK))


def _is_age(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == _AGE


def _is_day(node: exp.Expr) -> bool:
    """Return whether it is a literal of a date, as in ``DATE '2026-01-31'``."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return False
    return bool(node.this.is_string and node.to.this == exp.DType.DATE)


def _translated(
    node: exp.Expr, spelled: Mapping[str, str], texts: Collection[str], parameter: Callable[[str], str]
) -> exp.Expr:
    if isinstance(node, exp.Placeholder):
        return exp.Var(this=parameter(node.name))
    if isinstance(node, exp.Table):
        node.set("this", exp.to_identifier(node.name.lower(), quoted=True))
        return node
    if isinstance(node, exp.CountIf):
        return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))
    if isinstance(node, exp.Div):  # of whole numbers, which PostgreSQL would cut
        whole = exp.Cast(this=node.this, to=exp.DataType.build("numeric"))
        return exp.Div(this=whole, expression=node.expression, typed=True)
    if isinstance(node, exp.UnixSeconds):
        epoch = exp.Extract(this=exp.Var(this="EPOCH"), expression=node.this)
        return exp.Cast(this=exp.Floor(this=epoch), to=exp.DataType.build("bigint"))
    if _is_age(node):
        seconds = exp.Cast(this=node.expressions[-1], to=exp.DataType.build("double"))
        return exp.Mul(this=seconds, expression=exp.Var(this="INTERVAL '1 second'"))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        # A query within the statement may have columns of the same names.
        name, is_of_table = node.name.lower(), _is_of_table(node)
        node.set("this", exp.to_identifier(spelled.get(name, node.name) if is_of_table else node.name, quoted=True))
        if name in texts and isinstance(node.parent, _ORDERED) and is_of_table:
            return exp.Collate(this=node.copy(), expression=exp.to_identifier("C", quoted=True))
    return node


def _is_of_table(column: exp.Column) -> bool:
    """Return whether a column is one of a relation, not of a query within the statement."""
    select = column.find_ancestor(exp.Select)
    return select is None or isinstance(select.args["from_"].this, exp.Table)


def postgres_type(spark_type: str) -> str:
    """Return the type of PostgreSQL with the values of one of Spark.

    >>> postgres_type("timestamp"), postgres_type("array<string>"), postgres_type("decimal(9,2)")
    ('TIMESTAMPTZ', 'TEXT[]', 'DECIMAL(9, 2)')
    """
    return exp.DataType.build(spark_type, dialect=SPARK).sql(POSTGRES)


def rows_with(query: str, relations: Mapping[str, str]) -> str:
    """Return a query whose ``relations`` are the queries of other ones, by name; it begins on a line of its own.

    >>> print(rows_with("SELECT id FROM a", {"a": "SELECT 1 AS id"}))
    WITH "a" AS NOT MATERIALIZED (SELECT 1 AS id) SELECT * FROM (
    SELECT id FROM a
    ) AS rivet_rows
    """
    ctes = [
        exp.CTE(
            this=exp.Var(this=text),
            alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
            materialized=False,
        )
        for name, text in relations.items()
    ]
    alias = exp.TableAlias(this=exp.to_identifier("rivet_rows"))
    rows = exp.select(exp.Star()).from_(exp.Subquery(this=exp.Var(this=f"\n{query}\n"), alias=alias))
    if ctes:
        rows.set("with_", exp.With(expressions=ctes))
    return rows.sql(POSTGRES)


def select_from(query: str, columns: Sequence[tuple[str, str | None]]) -> str:
    """Return the query of ``columns`` of another one, those with a type as a cast to it; without any, of all.

    >>> select_from("SELECT 1 AS id", [("id", "text")])
    'SELECT CAST("id" AS text) AS "id" FROM (SELECT 1 AS id) AS rivet_rows'
    """
    items: list[exp.Expr] = []
    for name, type_ in columns:
        value: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
        if type_ is not None:
            cast = exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_))
            value = exp.alias_(cast, name, quoted=True)
        items.append(value)
    alias = exp.TableAlias(this=exp.to_identifier("rivet_rows"))
    rows = exp.select(*(items or [exp.Star()])).from_(exp.Subquery(this=exp.Var(this=query), alias=alias))
    return rows.sql(POSTGRES)


def insert_from(table: str, names: Sequence[str], query: str) -> str:
    """Return the statement that adds the rows of a query, whose columns have these names, to a quoted table.

    >>> insert_from('"shop"."new"', ["id"], "SELECT 1 AS id")
    'INSERT INTO "shop"."new" ("id") SELECT "id" FROM (SELECT 1 AS id) AS rivet_rows'
    """
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    into = exp.Schema(this=exp.Var(this=table), expressions=columns)
    rows = exp.Var(this=select_from(query, [(name, None) for name in names]))
    return exp.Insert(this=into, expression=rows).sql(POSTGRES)


def union_of(queries: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return all rows of queries, each with the names of its columns in the order of the first ones.

    >>> union_of([("SELECT 1 AS a, 2 AS b", ["a", "b"]), ("SELECT 3 AS b, 4 AS a", ["a", "b"])])[:39]
    'SELECT "a", "b" FROM (SELECT 1 AS a, 2 '
    """
    return " UNION ALL ".join(select_from(query, [(name, None) for name in names]) for query, names in queries)


def set_snapshot(exported: str) -> str:
    """Return the statement by which a transaction reads at a snapshot that another one has exported.

    >>> set_snapshot("00000003-1")
    "SET TRANSACTION SNAPSHOT '00000003-1'"
    """
    return f"SET TRANSACTION SNAPSHOT {exp.Literal.string(exported).sql(POSTGRES)}"
