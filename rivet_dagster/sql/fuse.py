"""Fusion of several queries into one, in which each user's text is a CTE."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.dialect import quoted


def fuse(ctes: Sequence[tuple[str, str]], result: str) -> str:
    """Return one query for the rows of ``result``, with each of ``ctes`` (name, text) as a CTE, in order.

    A text may have its own WITH, comments and set operations: it is put in parentheses on lines of its own, and a name
    inside it hides the same name outside.

    >>> print(fuse([("paid", "SELECT * FROM orders -- all"), ("total", "SELECT sum(x) FROM paid")], "total"))
    WITH paid AS (
    SELECT * FROM orders -- all
    ),
    total AS (
    SELECT sum(x) FROM paid
    )
    SELECT * FROM total
    """
    final = f"SELECT * FROM {quoted(result)}"
    if not ctes:
        return final
    return "WITH " + ",\n".join([f"{quoted(name)} AS {in_parentheses(text)}" for name, text in ctes]) + "\n" + final


def locate(ctes: Sequence[tuple[str, str]], line: int) -> tuple[str, int] | None:
    """Return the CTE of a line of the fused query, and the line in the CTE's own text; lines count from 1.

    >>> locate([("paid", "SELECT *\\nFROM orders"), ("total", "SELECT sum(x) FROM paid")], 6)
    ('total', 1)
    """
    first = 2  # a line with the name precedes each text, a line with the closing parenthesis follows it
    for name, text in ctes:
        lines = text.count("\n") + 1
        if first <= line < first + lines:
            return name, line - first + 1
        first += lines + 2
    return None


def union_by_name(queries: Sequence[str]) -> str:
    """Return a union by column names for display (Spark's SQL has no such clause; its DataFrames have a method)."""
    return "\nUNION ALL BY NAME\n".join(queries)
