"""Layout of rows in files, so that a later write of one part does not rewrite the files of other parts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.sql.partition_filter import Values, starts
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, sql_text

PART = "rivet_part"
"""The column with the part to which a row belongs; it is not stored."""

MOST_PARTS = 200
"""The maximum number of parts, as each adds a condition to the query; a longer window has several partitions a part."""


def part_rows(name: str, columns: Sequence[str]) -> tuple[str, Values]:
    """Return the rows of the relation ``name`` with a part for each combination of values, and the query's parameters.

    The part is a hash, which is valid in the name of a folder whatever the values are; a collision does no harm.

    >>> part_rows("batch", ["day"])
    ('SELECT *, XXHASH64(`day`) AS `rivet_part` FROM `batch`', {})
    """
    part = exp.Anonymous(this="XXHASH64", expressions=[plain_column(c) for c in columns])
    return sql_text(exp.select(exp.Star(), named(part, PART)).from_(plain_relation(name))), {}


def parted_by_window(name: str, partitions: Partitions, kind: str, window: Window) -> tuple[str, Values]:
    """Return the same with a part for each partition of ``window``; ``kind`` is the type of their column.

    >>> regions = Partitions("static", "region", values=("eu", "us"))
    >>> parted_by_window("batch", regions, "string", Window(regions, ("eu", "us")))
    ('SELECT *, XXHASH64(`region`) AS `rivet_part` FROM `batch`', {})
    """
    if not partitions.of_time:
        return part_rows(name, [partitions.column])
    step = -(-len(window.keys) // MOST_PARTS)
    bounds = starts(partitions, kind, window.bounds[step:-1:step])
    moment = plain_column(partitions.column)
    has_begun = [exp.cast(exp.GTE(this=moment.copy(), expression=bound), exp.DType.INT) for bound, _ in bounds.values()]
    part: exp.Expr = exp.Literal.number(0)
    for condition in has_begun:
        part = exp.Add(this=part, expression=condition)
    values = {parameter: value for parameter, (_, value) in bounds.items()}
    return sql_text(exp.select(exp.Star(), named(part, PART)).from_(plain_relation(name))), values


def nothing_of(name: str) -> str:
    """Return the columns of a relation with parts, without the part and without rows.

    >>> nothing_of("batch")
    'SELECT * EXCEPT (`rivet_part`) FROM `batch` LIMIT 0'
    """
    columns = exp.Star(except_=[exp.to_identifier(PART, quoted=True)])
    return sql_text(limited(exp.select(columns).from_(plain_relation(name)), 0))


def in_partitions(name: str, count: int) -> str:
    """Return all rows of a relation in ``count`` partitions of Spark, without a shuffle.

    >>> in_partitions("batch", 2)
    'SELECT /*+ COALESCE(2) */ * FROM `batch`'
    """
    coalesce = exp.Anonymous(this="COALESCE", expressions=[exp.Literal.number(count)])
    query = exp.select(exp.Star()).from_(plain_relation(name))
    query.set("hint", exp.Hint(expressions=[coalesce]))
    return sql_text(query)
