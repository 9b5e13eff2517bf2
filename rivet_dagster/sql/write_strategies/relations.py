"""The relations that the queries of write strategies read, and expressions shared by several queries.

``target`` holds the rows on which the write builds, ``batch`` the incoming rows, both with the columns that the table
will have. ``incoming`` is the batch as the strategy has transformed it, ``rest`` the target's rows that may have to be
deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, sql_text

TARGET, BATCH, INCOMING, REST = "target", "batch", "incoming", "rest"

Columns = Sequence[tuple[str, str]]
"""Pairs of name and engine type, in order."""


def selected(columns: Columns, name: str) -> exp.Select:
    """Return the query of all ``columns`` of a relation."""
    return exp.select(*[plain_column(c, name) for c, _ in columns]).from_(plain_relation(name))


def joined(query: exp.Select, other: str, how: str, on: exp.Expr) -> exp.Select:
    """Return ``query`` with a LEFT join of the kind SEMI, ANTI or OUTER."""
    return query.join(exp.Join(this=plain_relation(other), side="LEFT", kind=how, on=on))


def same_values(columns: Columns, left: str, right: str) -> exp.Expr:
    """Return the condition that two rows are equal in all ``columns``, where NULL equals NULL.

    Spark cannot compare maps and variants, so they are compared as JSON, which may differ where only their order does.

    >>> print(sql_text(same_values([("a", "int"), ("m", "map<string,int>")], "l", "r")))
    `l`.`a` IS NOT DISTINCT FROM `r`.`a`
      AND TO_JSON(STRUCT(`l`.`m`)) IS NOT DISTINCT FROM TO_JSON(STRUCT(`r`.`m`))
    """
    pairs = [(_comparable(name, kind, left), _comparable(name, kind, right)) for name, kind in columns]
    return exp.and_(*[exp.NullSafeEQ(this=ours, expression=theirs) for ours, theirs in pairs])


def distinct_values(columns: Sequence[str], name: str, most: int) -> str:
    """Return the query of up to ``most`` distinct combinations of values of ``columns``.

    >>> distinct_values(["day"], "incoming", 3)
    'SELECT DISTINCT `day` AS `day` FROM `incoming` LIMIT 3'
    """
    values = [named(plain_column(c), c) for c in columns]
    return sql_text(limited(exp.select(*values).distinct().from_(plain_relation(name)), most))


def without_value(column_name: str) -> str:
    """Return the query that counts, as ``rows``, the rows of ``batch`` with NULL in a column.

    >>> without_value("at")
    'SELECT COUNT(*) AS `rows` FROM `batch` WHERE `at` IS NULL'
    """
    missing = exp.Is(this=plain_column(column_name), expression=exp.Null())
    return sql_text(exp.select(named(count(), "rows")).from_(plain_relation(BATCH)).where(missing))


def count() -> exp.Count:
    """Return ``COUNT(*)``."""
    return exp.Count(this=exp.Star(), big_int=True)


def _comparable(name: str, kind: str, table: str) -> exp.Expr:
    plain = plain_column(name, table)
    if "map<" not in kind and "variant" not in kind:
        return plain
    return exp.Anonymous(this="TO_JSON", expressions=[exp.Anonymous(this="STRUCT", expressions=[plain])])
