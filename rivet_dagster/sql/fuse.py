"""Several queries as one: each the author's own text, nested whole in a WITH."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.dialect import quoted


def fuse(ctes: Sequence[tuple[str, str]], result: str) -> str:
    """One query that gives the rows of ``result``, with each of ``ctes`` (name, text) a CTE in order.

    A text may hold its own WITH, comments and set operations: it stands in parentheses on lines of its own, and a
    name inside it hides the same name outside.

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
    return "WITH " + ",\n".join(f"{quoted(name)} AS {in_parentheses(text)}" for name, text in ctes) + "\n" + final


def locate(ctes: Sequence[tuple[str, str]], line: int) -> tuple[str, int] | None:
    """Which of ``ctes`` a line of their fused query belongs to, and the line in its own text; lines count from 1.

    >>> locate([("paid", "SELECT *\\nFROM orders"), ("total", "SELECT sum(x) FROM paid")], 6)
    ('total', 1)
    """
    first = 2  # each text has the line of its name before it and that of its closing parenthesis behind it
    for name, text in ctes:
        lines = text.count("\n") + 1
        if first <= line < first + lines:
            return name, line - first + 1
        first += lines + 2
    return None


def union_by_name(queries: Sequence[str]) -> str:
    """How a union of queries by column names reads to a person (Spark has no such clause; its engine call has)."""
    return "\nUNION ALL BY NAME\n".join(queries)
