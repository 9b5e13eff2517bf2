"""Names and conditions that the parts of the query share."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.write_strategies.trees import plain_column

OLD, NEW = "rivet_old", "rivet_new"
"""The relations that the query reads."""

OLD_ROWS, NEW_ROWS = "old_rows", "new_rows"
"""Their compared columns, as ``c0``, ``c1``, ..."""

FOUND = "found"
"""The relation of what is counted and sampled.

Its columns are those of the key, or all without one; ``old`` and ``new``, structs of ``c0``, ``c1``, ..., NULL where
the version has no such row, and both NULL for equal rows; and ``copy``, how many rows one of its rows stands for.
"""

OLD_ROW, NEW_ROW, COPY = "old", "new", "copy"

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
"""Kinds of rows that differ."""


def is_kind(kind: str) -> exp.Expr:
    """Return the condition that a row of ``found`` is of a kind."""
    has_old, has_new = (exp.not_(exp.Is(this=plain_column(name), expression=exp.Null())) for name in (OLD_ROW, NEW_ROW))
    if kind == ADDED:
        return exp.and_(exp.not_(has_old), has_new)
    if kind == REMOVED:
        return exp.and_(has_old, exp.not_(has_new))
    return exp.and_(has_old, has_new)


def rows_where(condition: exp.Expr) -> exp.Expr:
    """Return the number of rows for which ``found`` stands where a condition holds."""
    total = exp.Filter(this=exp.Sum(this=plain_column(COPY)), expression=exp.Where(this=condition))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


def once() -> exp.Expr:
    """Return a column for which Spark computes a CTE once, however often it is read: no deterministic one has it."""
    return exp.Alias(this=exp.Anonymous(this="MONOTONICALLY_INCREASING_ID"), alias=exp.to_identifier("once"))


def columns_of(names: Sequence[str]) -> list[exp.Expr]:
    """Return the columns ``names``."""
    return [plain_column(name) for name in names]


def alias(name: str) -> exp.TableAlias:
    """Return the alias of a subquery."""
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def one() -> exp.Expr:
    """Return 1 in the type of a sum."""
    return exp.Cast(this=exp.Literal.number(1), to=exp.DataType(this=exp.DType.BIGINT))
