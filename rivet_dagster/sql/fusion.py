"""Fusion of several queries into one, in which each user's text is a CTE.

Several small queries as one, whose rows can be told apart again, with the types that each query gives them.

The query of the rows that a person looks at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rivet_dagster.errors import RivetError
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import quote_name
from rivet_dagster.sql.parsing.embedding import in_parentheses, refuse_unbalanced


def fuse(ctes: Sequence[tuple[str, str]], result: str, quote: str = "`") -> str:
    """Return one query for the rows of ``result``, with each of ``ctes`` (name, text) as a CTE, in order.

    ``quote`` is what names are quoted with in the SQL of the texts.

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

    def quoted(name: str) -> str:
        return quote_name(name).replace("`", quote)

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


NUMBER = "rivet_query"
"""The column with the number of the query that a row is of."""


def together(queries: Sequence[tuple[Hashable, str]]) -> str:
    """Return one query for the rows of ``queries``, pairs of a shape and a text, in their order.

    A row has the number of its query, and as an array of one struct the query's own row, in the column of the query's
    shape; the other columns are NULL. Queries of one shape have the same columns, of the same types.

    >>> print(together([("a", "SELECT 1 AS x"), ("b", "SELECT 2 AS y"), ("a", "SELECT 3 AS x")]))
    SELECT /*+ COALESCE(1) */ * FROM (
    SELECT 0 AS rivet_query, array(struct(*)) AS shape_0, NULL AS shape_1 FROM (
    SELECT 1 AS x
    )
    UNION ALL
    SELECT 1 AS rivet_query, NULL AS shape_0, array(struct(*)) AS shape_1 FROM (
    SELECT 2 AS y
    )
    UNION ALL
    SELECT 2 AS rivet_query, array(struct(*)) AS shape_0, NULL AS shape_1 FROM (
    SELECT 3 AS x
    )
    )
    """
    shapes = list(dict.fromkeys(shape for shape, _ in queries))

    def columns(columns_of_query: Hashable) -> str:
        return ", ".join(
            f"{'array(struct(*))' if shape == columns_of_query else 'NULL'} AS {_name(shapes, shape)}"
            for shape in shapes
        )

    union = "\nUNION ALL\n".join(
        f"SELECT {number} AS {NUMBER}, {columns(shape)} FROM {in_parentheses(text)}"
        for number, (shape, text) in enumerate(queries)
    )
    # One task: each task of Spark's is sent the whole query.
    return f"SELECT /*+ COALESCE(1) */ * FROM {in_parentheses(union)}"


def columns_of(shapes: Sequence[Hashable]) -> dict[Hashable, str]:
    """Return the column of each shape.

    >>> columns_of(["a", "b", "a"])
    {'a': 'shape_0', 'b': 'shape_1'}
    """
    distinct = list(dict.fromkeys(shapes))
    return {shape: _name(distinct, shape) for shape in distinct}


def _name(shapes: Sequence[Hashable], shape: Hashable) -> str:
    return f"shape_{shapes.index(shape)}"


def limited_rows(relation: str, limit: int, where: str | None) -> str:
    r"""Return the query of up to ``limit`` rows of a relation, for which a condition, the user's text, holds.

    Raises RVT-207 for a text that would not stay within its parentheses.

    >>> limited_rows("shown", 3, "id > 1 -- all"), limited_rows("shown", 3, None)
    ('SELECT * FROM shown WHERE (\nid > 1 -- all\n) LIMIT 3', 'SELECT * FROM shown LIMIT 3')
    """
    if where is None:
        return f"SELECT * FROM {relation} LIMIT {limit}"
    try:
        refuse_unbalanced(where)
    except SqlError as error:
        raise RivetError("RVT-207", f"the condition {error}", remediation="Correct the condition.") from None
    return f"SELECT * FROM {relation} WHERE {in_parentheses(where)} LIMIT {limit}"
