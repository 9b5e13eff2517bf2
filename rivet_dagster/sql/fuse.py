"""Several queries as one: each the author's own text, nested whole in a WITH."""

from __future__ import annotations

from collections.abc import Sequence

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
    return "WITH " + ",\n".join(f"{quoted(name)} AS (\n{text}\n)" for name, text in ctes) + "\n" + final


def union_by_name(queries: Sequence[str]) -> str:
    """How a union of queries by column names reads to a person (Spark has no such clause; its engine call has)."""
    return "\nUNION ALL BY NAME\n".join(queries)
