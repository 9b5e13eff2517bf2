"""Row counts of a relation for each partition of a window."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.partition_filter import Values, in_window, lower_bound

_MOMENT, _ROWS = "moment", "rows"
_SECONDS = 900
"""The offsets of all time zones are multiples of a quarter of an hour."""

_HOUR, _DAY = len("2024-01-31 05"), len("2024-01-31")


def rows_by_moment(relation: str, partitions: Partitions, kind: str, window: Window) -> tuple[str, Values]:
    """Return a query for ``rows_by_key``, and its parameters: a row count for each possible start of a partition.

    ``kind`` is the type of the partition column.

    >>> regions = Partitions("static", "region", values=("eu", "us"))
    >>> print(rows_by_moment("orders", regions, "string", Window(regions, ("eu",)))[0])
    SELECT `region` AS `moment`, COUNT(*) AS `rows` FROM `orders` WHERE `region` IN (:rivet_key_0) GROUP BY `region`
    """
    condition, values = in_window(partitions, kind, window)
    moment = _moment(exp.column(exp.to_identifier(partitions.column, quoted=True)), partitions, kind)
    count = exp.Count(this=exp.Star(), big_int=True)
    query = (
        exp.select(exp.alias_(moment, _MOMENT, quoted=True), exp.alias_(count, _ROWS, quoted=True))
        .from_(exp.Table(this=exp.to_identifier(relation, quoted=True)))
        .where(condition)
        .group_by(moment.copy())
    )
    return query.sql(dialect=SPARK), values


def rows_by_key(moments: Iterable[Mapping[str, Any]], kind: str, window: Window) -> dict[str, int]:
    """Return the row count of each partition of ``window``, 0 for empty ones, from the rows of ``rows_by_moment``."""
    counts = dict.fromkeys(window.keys, 0)
    zone = ZoneInfo(window.partitions.timezone)
    starts = [_as_moment(lower_bound(start, kind, zone), kind) for start in window.bounds[:-1]]
    for row in moments:
        moment = row[_MOMENT]
        counts[window.keys[bisect_right(starts, moment) - 1] if starts else moment] += row[_ROWS]
    return counts


def _as_moment(start: Any, kind: str) -> Any:
    """Return the start of a partition as the query returns it."""
    if kind == "timestamp":
        return int(start.timestamp()) // _SECONDS
    return start[:_HOUR] if kind == "timestamp_ntz" else start


def _moment(column: exp.Expr, partitions: Partitions, kind: str) -> exp.Expr:
    if not partitions.of_time:
        return column if kind == "string" else exp.cast(column, exp.DType.TEXT)
    if kind == "timestamp":
        quarter = exp.Div(this=exp.func("UNIX_SECONDS", column), expression=exp.Literal.number(_SECONDS))
        return exp.cast(exp.Floor(this=quarter), exp.DType.BIGINT)
    if kind == "timestamp_ntz":  # as text: DATE_TRUNC would convert it to an instant
        return exp.Left(this=exp.cast(column, exp.DType.TEXT), expression=exp.Literal.number(_HOUR))
    return exp.Left(this=column, expression=exp.Literal.number(_DAY)) if kind == "string" else column
