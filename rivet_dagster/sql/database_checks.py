"""Queries of a database that count the violations of checks, by rows as engines read them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.mariadb import to_sql


def count_nulls(columns: Sequence[str]) -> exp.Expr:
    """Return the aggregate that counts the rows with NULL in one of the columns.

    >>> count_nulls(["id", "day"]).sql(dialect="postgres")
    'COUNT(CASE WHEN "id" IS NULL OR "day" IS NULL THEN 1 END)'
    """
    return _count_where(exp.or_(*[exp.Is(this=_column(name), expression=exp.Null()) for name in columns]))


def count_others(column: str, values: Sequence[str | int | bool]) -> exp.Expr:
    """Return the aggregate that counts the rows with another value than these, or NULL, in a column.

    >>> count_others("state", ["new", "paid"]).sql(dialect="postgres")
    'COUNT(CASE WHEN NOT "state" IN (\\'new\\', \\'paid\\') THEN 1 END)'
    """
    known = exp.In(this=_column(column), expressions=[exp.convert(value) for value in values])
    return _count_where(exp.not_(known))


def count_surplus(column: str) -> exp.Expr:
    """Return the aggregate that counts the surplus rows of a key of one column, as ``count_duplicates`` does.

    PostgreSQL sorts the values for it, which takes it a quarter to half of the time of groups.

    >>> count_surplus("id").sql(dialect="postgres")
    'COUNT("id") - COUNT(DISTINCT "id")'
    """
    distinct = exp.Count(this=exp.Distinct(expressions=[_column(column)]))
    return exp.Sub(this=exp.Count(this=_column(column)), expression=distinct)


def aggregates_of(rows: str, aggregates: Sequence[exp.Expr], dialect: str) -> str:
    """Return the query of aggregates over ``rows``, a query in parentheses with an alias.

    >>> aggregates_of("(SELECT 1 AS id) found", [count_nulls(["id"])], "postgres")
    'SELECT COUNT(CASE WHEN "id" IS NULL THEN 1 END) FROM (SELECT 1 AS id) found'
    """
    return to_sql(exp.Select(expressions=list(aggregates), from_=exp.From(this=exp.Var(this=rows))), dialect)


def count_duplicates(rows: str, columns: Sequence[str], dialect: str) -> str:
    """Return the query of the number of surplus rows: of three rows with the same key, two; NULL is in no key.

    >>> print(count_duplicates("(SELECT 1 AS id) found", ["id"], "postgres"))
    SELECT COALESCE(SUM("copies" - 1), 0) FROM (SELECT COUNT(*) AS "copies" FROM (SELECT 1 AS id) found
    WHERE NOT "id" IS NULL GROUP BY "id" HAVING COUNT(*) > 1) AS "repeated"
    """
    keys = [_column(name) for name in columns]
    present = [exp.not_(exp.Is(this=key.copy(), expression=exp.Null())) for key in keys]
    copies = exp.alias_(exp.Count(this=exp.Star()), "copies", quoted=True)
    repeated = exp.Select(expressions=[copies], from_=exp.From(this=exp.Var(this=rows)))
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    repeated = repeated.where(*present).group_by(*keys).having(several)
    surplus = exp.Sum(this=exp.Sub(this=_column("copies"), expression=exp.Literal.number(1)))
    total = exp.Coalesce(this=surplus, expressions=[exp.Literal.number(0)])
    alias = exp.to_identifier("repeated", quoted=True)
    return to_sql(exp.select(total).from_(repeated.subquery(alias)), dialect)


def _count_where(condition: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))]))


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
