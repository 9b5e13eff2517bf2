"""The condition that selects a relation's rows in a window of partitions, with bound values.

Row counts of a relation for each partition of a window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.generated_statements import GeneratedStatement
from rivet_dagster.sql.parsing.dialect import quote_name
from rivet_dagster.sql.parsing.embedding import in_parentheses

Values = dict[str, Any]
"""The values of parameters by name."""

Condition = exp.Expr
"""The tree of a condition on the columns of one relation."""

_FROM, _UNTIL, _COMPUTED = "rivet_from", "rivet_until", "rivet_partition"


def rows_in_window(
    relation: str,
    partitions: Partitions,
    kind: str,
    window: Window,
    text: str | None = None,
    unknown: str = "false",
) -> tuple[str, Values]:
    """Return the query of the rows of ``relation`` that are in ``window``, and its parameters.

    ``partitions`` are the relation's own, selected by those of the window; ``kind`` is the type of their column. If
    ``text`` is given, the column is this expression; rows for which the condition ``unknown`` is true are in every
    window, and it is not evaluated for them.

    >>> regions = Partitions("static", "region", values=("eu", "us"))
    >>> rows_in_window("orders", regions, "string", Window(regions, ("eu",)))
    ('SELECT * FROM `orders` WHERE `region` IN (:rivet_key_0)', {'rivet_key_0': 'eu'})
    """
    if text is not None:
        condition, values = in_window(replace(partitions, column=_COMPUTED), kind, window)
        value = in_parentheses(text)
        inside = condition.sql(dialect=SPARK).replace(f"`{_COMPUTED}`", value)
        return f"SELECT * FROM {quote_name(relation)} WHERE CASE WHEN {unknown} THEN true ELSE {inside} END", values
    condition, values = in_window(partitions, kind, window)
    rows = exp.select(exp.Star()).from_(exp.Table(this=exp.to_identifier(relation, quoted=True))).where(condition)
    return GeneratedStatement(rows.sql(dialect=SPARK)), values


def rows_outside(relation: str, partitions: Partitions, kind: str, window: Window) -> tuple[str, Values]:
    """Return the query of all other rows, including those without a partition, and its parameters.

    >>> regions = Partitions("static", "region", values=("eu", "us"))
    >>> rows_outside("orders", regions, "string", Window(regions, ("eu",)))[0]
    'SELECT * FROM `orders` WHERE NOT COALESCE(`region` IN (:rivet_key_0), FALSE)'
    """
    condition, values = in_window(partitions, kind, window)
    outside = exp.Not(this=exp.Coalesce(this=condition, expressions=[exp.false()]))
    rows = exp.select(exp.Star()).from_(exp.Table(this=exp.to_identifier(relation, quoted=True))).where(outside)
    return GeneratedStatement(rows.sql(dialect=SPARK)), values


def in_window(partitions: Partitions, kind: str, window: Window) -> tuple[exp.Expr, Values]:
    """Return the condition by itself: true for rows in the window, false or NULL for all others.

    Instants are compared as such. Dates, texts of dates and timestamps without time zone are in the partitions' time
    zone; a date is in a window that overlaps its day.
    """
    column = exp.column(exp.to_identifier(partitions.column, quoted=True))
    if not partitions.of_time:
        keys = {f"rivet_key_{n}": key for n, key in enumerate(window.keys)}
        text = column if kind == "string" else exp.cast(column, exp.DType.TEXT)
        return exp.In(this=text, expressions=[exp.Placeholder(this=name) for name in keys]), keys
    zone = ZoneInfo(partitions.timezone)
    values: Values = {
        _FROM: lower_bound(window.bounds[0], kind, zone),
        _UNTIL: upper_bound(window.bounds[-1], kind, zone),
    }
    first, last = (_bound(name, kind) for name in values)
    return exp.and_(exp.GTE(this=column, expression=first), exp.LT(this=column.copy(), expression=last)), values


def starts(partitions: Partitions, kind: str, moments: Sequence[datetime]) -> dict[str, tuple[exp.Expr, Any]]:
    """Return a parameter for each of ``moments``: its expression as a value of type ``kind``, and its bound value."""
    zone = ZoneInfo(partitions.timezone)
    names = [f"rivet_start_{number}" for number in range(len(moments))]
    return {
        name: (_bound(name, kind), lower_bound(moment, kind, zone)) for name, moment in zip(names, moments, strict=True)
    }


def lower_bound(start: datetime, kind: str, zone: ZoneInfo) -> Any:
    """Return the least value of a column of type ``kind`` in a partition that begins at ``start``."""
    if kind == "timestamp":
        return start
    local = start.astimezone(zone)
    if kind == "timestamp_ntz":
        return local.replace(tzinfo=None).isoformat(sep=" ")
    return local.date() if kind == "date" else local.date().isoformat()


def upper_bound(end: datetime, kind: str, zone: ZoneInfo) -> Any:
    """Return the least value after a partition that ends at ``end``."""
    if kind in ("timestamp", "timestamp_ntz"):
        return lower_bound(end, kind, zone)
    # Where daylight saving time begins at midnight, a day ends at one o'clock of the next: use its last instant.
    last = (end - timedelta(microseconds=1)).astimezone(zone).date() + timedelta(days=1)
    return last if kind == "date" else last.isoformat()


def _bound(name: str, kind: str) -> exp.Expr:
    """Return a parameter as a value of the column's type: a timestamp without time zone can only be bound as text."""
    value = exp.Placeholder(this=name)
    return exp.cast(value, exp.DType.TIMESTAMPNTZ) if kind == "timestamp_ntz" else value


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
    return GeneratedStatement(query.sql(dialect=SPARK)), values


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
