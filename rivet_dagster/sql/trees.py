"""Building blocks of the queries of checks."""

from __future__ import annotations

from functools import cache

from sqlglot import Dialect, exp

from rivet_dagster.model.plugins import SPARK

VIOLATIONS = "violations"
"""The column with the number of violations in the one row of a query's result."""


def column(name: str, table: str | None = None) -> exp.Expr:
    """Return a column by the name that a user gives it: dots access struct fields, so each part is quoted by itself.

    >>> text(column("unit price")), text(column("place.city", "judged"))
    ('`unit price`', 'judged.`place`.`city`')
    """
    parts = [exp.to_identifier(part, quoted=True) for part in name.split(".")]
    first = exp.Column(this=parts[0], table=exp.to_identifier(table))
    return first if len(parts) == 1 else exp.Dot.build([first, *parts[1:]])


def relation(name: str, alias: str | None = None) -> exp.Table:
    """Return the relation ``name``."""
    called = exp.TableAlias(this=exp.to_identifier(alias)) if alias is not None else None
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=called)


def named(tree: exp.Expr, name: str) -> exp.Alias:
    """Return ``tree AS name``."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def as_written(sql: str) -> exp.Var:
    """Return a user's text, whose brackets are balanced, unchanged."""
    return exp.Var(this=sql)


def is_null(tree: exp.Expr) -> exp.Is:
    """Return ``tree IS NULL``."""
    return exp.Is(this=tree, expression=exp.Null())


def is_not_null(tree: exp.Expr) -> exp.Not:
    """Return ``NOT tree IS NULL``."""
    return exp.Not(this=is_null(tree))


def number_of_rows() -> exp.Count:
    """Return ``COUNT(*)``."""
    return exp.Count(this=exp.Star(), big_int=True)


def number(value: int) -> exp.Expr:
    """Return the literal of an integer of at least 0."""
    return exp.Literal.number(value)


def parameter(name: str) -> exp.Placeholder:
    """Return a reference to the parameter ``name``."""
    return exp.Placeholder(this=name)


def select(*items: exp.Expr, of: exp.Expr) -> exp.Select:
    """Return ``SELECT items FROM of``, with all columns if there are no items."""
    return exp.Select(expressions=list(items) or [exp.Star()], from_=exp.From(this=of))


def where(rows: exp.Select, condition: exp.Expr) -> exp.Select:
    """Add a condition to ``rows``, unchanged: sqlglot's builder would parse the text of a user's condition."""
    rows.set("where", exp.Where(this=condition))
    return rows


def limited(rows: exp.Select, most: int) -> exp.Select:
    """Add ``LIMIT most`` to ``rows``: sqlglot's builder would parse the number, and copy what it adds to."""
    rows.set("limit", exp.Limit(expression=number(most)))
    return rows


def text(tree: exp.Expr) -> str:
    """Return the SQL of a tree, for Spark. The tree may be changed and is not to be used afterwards."""
    return _spark().generate(tree, copy=False)


@cache
def _spark() -> Dialect:
    return Dialect.get_or_raise(SPARK)
