"""Several small queries as one, whose rows can be told apart again, with the types that each query gives them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rivet_dagster.sql.balance import in_parentheses

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

    def columns(own: Hashable) -> str:
        return ", ".join(
            f"{'array(struct(*))' if shape == own else 'NULL'} AS {_name(shapes, shape)}" for shape in shapes
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
