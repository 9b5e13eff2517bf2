"""The parts that the queries of checks are put together from."""

from __future__ import annotations

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK

VIOLATIONS = "violations"
"""The column of a query's one row that says how many violations there are."""


def column(name: str, table: str | None = None) -> exp.Expr:
    """The column as its author names it: dots reach into structs, so only plain names are quoted whole.

    >>> text(column("unit price")), text(column("place.city", "judged"))
    ('`unit price`', 'judged.`place`.`city`')
    """
    parts = [exp.to_identifier(part, quoted=True) for part in name.split(".")]
    first = exp.Column(this=parts[0], table=exp.to_identifier(table))
    return first if len(parts) == 1 else exp.Dot.build([first, *parts[1:]])


def relation(name: str, alias: str | None = None) -> exp.Table:
    """The relation ``name``."""
    called = exp.TableAlias(this=exp.to_identifier(alias)) if alias is not None else None
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=called)


def named(tree: exp.Expr, name: str) -> exp.Alias:
    """``tree AS name``."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def as_written(sql: str) -> exp.Var:
    """A text of the author's, which stands balanced on its own, as it is."""
    return exp.Var(this=sql)


def is_null(tree: exp.Expr) -> exp.Is:
    """``tree IS NULL``."""
    return exp.Is(this=tree, expression=exp.Null())


def is_not_null(tree: exp.Expr) -> exp.Not:
    """``NOT tree IS NULL``."""
    return exp.Not(this=is_null(tree))


def number_of_rows() -> exp.Count:
    """``COUNT(*)``."""
    return exp.Count(this=exp.Star(), big_int=True)


def number(value: int) -> exp.Expr:
    """A whole number of at least 0."""
    return exp.Literal.number(value)


def parameter(name: str) -> exp.Placeholder:
    """A value that is bound under ``name``."""
    return exp.Placeholder(this=name)


def select(*items: exp.Expr, of: exp.Expr) -> exp.Select:
    """``SELECT items FROM of``, all columns where no item is given."""
    return exp.select(*(items or [exp.Star()])).from_(of)


def where(rows: exp.Select, condition: exp.Expr) -> exp.Select:
    """``rows`` with a condition that stands as it is: a builder would put one that is an author's in a parser."""
    rows.set("where", exp.Where(this=condition))
    return rows


def text(tree: exp.Expr) -> str:
    """The SQL of a tree, for Spark."""
    return tree.sql(dialect=SPARK)
