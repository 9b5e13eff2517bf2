"""Queries of a table that is written to and of the rows that are written, in the database's own SQL.

They tell which rows come, which stay, and how many they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from rivet_dagster.sql.database_trees import (
    SOURCE,
    TARGET,
    Matching,
    Name,
    WrittenColumn,
    bytes_of,
    column_of,
    comparable,
    compared_value,
    count_where,
    match_rows,
    of_target,
    rows_of_part,
    table,
    values_differ,
)
from rivet_dagster.sql.mariadb import to_sql

_PLACE = "rivet_place"


def source_rows(source: Name, names: Sequence[str]) -> exp.Select:
    """Return the query of all rows of the source."""
    return exp.select(*[column_of(name, SOURCE) for name in names]).from_(table(source, SOURCE))


def unmatched_rows(target: Name, source: Name, names: Sequence[str], on: Matching) -> exp.Query:
    """Return the query of the rows of the source that match no row of the target."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        matching = exp.select(exp.Literal.number(1)).from_(table(target, TARGET)).where(match_rows(on, with_null))
        rows = rows_of_part(source_rows(source, names), on, with_null)
        parts.append(rows.where(exp.not_(exp.Exists(this=matching))))
    return _union(parts)


def newer_rows(
    target: Name, source: Name, names: Sequence[str], column: WrittenColumn, inside: exp.Expr | None
) -> exp.Select:
    """Return the query of the source's rows whose ``column`` is greater than all values that the target has in it."""
    greatest = exp.select(exp.Max(this=_ordered(column, TARGET))).from_(table(target, TARGET))
    if inside is not None:
        greatest = greatest.where(of_target(inside))
    newest = greatest.subquery()
    is_newer = exp.GT(this=_ordered(column, SOURCE), expression=newest)
    return source_rows(source, names).where(exp.or_(exp.Is(this=newest.copy(), expression=exp.Null()), is_newer))


def remaining_rows(
    target: Name, columns: Sequence[WrittenColumn], source: Name | None, on: Matching | None
) -> exp.Select:
    """Return the query of the target's rows, as they are after the write, that match no row of the source.

    Without ``on`` these are all; with ``on`` and without a source those that are not inside of its condition.
    """
    rows = exp.select(*[_as_after(column) for column in columns]).from_(table(target, TARGET))
    if on is None:
        return rows
    if source is None:
        assert on.inside is not None
        return rows.where(exp.not_(exp.Coalesce(this=of_target(on.inside), expressions=[exp.false()])))
    for with_null in on.parts():
        matching = exp.select(exp.Literal.number(1)).from_(table(source, SOURCE)).where(match_rows(on, with_null))
        rows = rows.where(exp.not_(exp.Exists(this=rows_of_part(matching, on, with_null))))
    return rows


def matched_rows(target: Name, source: Name, names: Sequence[str], on: Matching) -> exp.Query:
    """Return the query of the source's rows, one for each row of the target that it matches."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        rows = source_rows(source, names).join(table(target, TARGET), on=match_rows(on, with_null))
        parts.append(rows_of_part(rows, on, with_null))
    return _union(parts)


def differing_rows(target: Name, columns: Sequence[WrittenColumn], source: Name, on: Matching) -> exp.Query:
    """Return the query of 1 for each row of the target that ``update_differing`` updates."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        rows = exp.select(exp.Literal.number(1)).from_(table(source, SOURCE))
        rows = rows.join(table(target, TARGET), on=match_rows(on, with_null))
        parts.append(rows_of_part(rows, on, with_null).where(values_differ(columns, TARGET, SOURCE)))
    return _union(parts)


def all_rows(*parts: exp.Query) -> exp.Query:
    """Return the query of the rows of all ``parts``."""
    return _union(list(parts))


def with_values(condition: exp.Expr, values: Mapping[str, Any], columns: Sequence[str]) -> exp.Expr:
    """Return a condition with the ``values`` of its parameters, and its columns as the table spells them.

    >>> column, value = exp.column("Day", quoted=True), exp.Placeholder(this="from")
    >>> condition = exp.GTE(this=column, expression=value)
    >>> print(with_values(condition, {"from": date(2026, 1, 1)}, ["day"]).sql(dialect="postgres"))
    "day" >= CAST('2026-01-01' AS DATE)
    """
    spelled = {name.lower(): name for name in columns}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Placeholder):
            return _literal(values[node.name])
        if isinstance(node, exp.Column):
            return column_of(spelled.get(node.name.lower(), node.name))
        return node

    return condition.transform(replaced)


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, datetime):
        type_ = exp.DType.TIMESTAMPTZ if value.tzinfo is not None else exp.DType.TIMESTAMP
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), type_)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)
    return exp.Literal.string(str(value))


def rows_of_all(sources: Sequence[Name], names: Sequence[str], dialect: str) -> str:
    """Return the query of the rows of several tables with the same columns."""
    return to_sql(all_rows(*[source_rows(source, names) for source in sources]), dialect)


def greatest_value(name: Name, column: str, by_bytes: bool, dialect: str) -> str:
    """Return the query of the greatest value of a column; of a text ``by_bytes``.

    >>> greatest_value(("shop", "orders"), "id", False, "postgres")
    'SELECT MAX("id") FROM "shop"."orders"'
    """
    value = _ordered(WrittenColumn(column, "", None, by_bytes=by_bytes))
    return to_sql(exp.select(exp.Max(this=value)).from_(table(name)), dialect)


def count_rows(rows: exp.Query, dialect: str) -> str:
    """Return the query that counts rows."""
    return to_sql(exp.select(exp.Count(this=exp.Star())).from_(rows.subquery("counted")), dialect)


def count_of(source: Name, dialect: str) -> str:
    """Return the query that counts the rows of a table.

    >>> count_of(("s", "b"), "postgres")
    'SELECT COUNT(*) FROM "s"."b"'
    """
    return to_sql(exp.select(exp.Count(this=exp.Star())).from_(table(source)), dialect)


def keys_with_null(source: Name, keys: Sequence[str], dialect: str) -> str:
    """Return the query that counts, for each key, the source's rows in which it is NULL."""
    counts = [count_where(exp.Is(this=column_of(key), expression=exp.Null())) for key in keys]
    return to_sql(exp.select(*counts).from_(table(source)), dialect)


def repeated_key(source: Name, keys: Sequence[WrittenColumn], dialect: str) -> str:
    """Return the query of one row if some key occurs more than once, else of none."""
    query = exp.select(exp.Literal.number(1)).from_(table(source)).group_by(*map(comparable, keys))
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    return to_sql(query.having(several).limit(1), dialect)


def ambiguous_keys(
    source: Name,
    columns: Sequence[WrittenColumn],
    keys: Sequence[WrittenColumn],
    order_by: Sequence[WrittenColumn],
    most: int,
    dialect: str,
) -> str:
    """Return the query of up to ``most`` keys of which unequal rows have the greatest order."""
    window = exp.Window(
        this=exp.Rank(), partition_by=[comparable(key) for key in keys], order=exp.Order(expressions=_latest(order_by))
    )
    chosen = [exp.alias_(column_of(key.name), f"key_{number}", quoted=True) for number, key in enumerate(keys)]
    values = [exp.alias_(comparable(column), f"value_{number}") for number, column in enumerate(columns)]
    places = window if order_by else exp.Literal.number(1)
    ranked = exp.select(*chosen, *values, exp.alias_(places, _PLACE)).from_(table(source)).subquery("ranked")
    first = exp.EQ(this=exp.column(_PLACE), expression=exp.Literal.number(1))
    compared = [
        exp.alias_(compared_value(key, column_of(f"key_{number}")), f"key_{number}") for number, key in enumerate(keys)
    ]
    distinct = exp.select(*compared, *[exp.column(f"value_{n}") for n in range(len(columns))]).distinct()
    rivals = distinct.from_(ranked).where(first).subquery("rivals")
    names = [exp.column(f"key_{number}") for number in range(len(keys))]
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    query = exp.select(*names).from_(rivals).group_by(*[name.copy() for name in names])
    return to_sql(query.having(several).limit(most), dialect)


def decided_rows(
    source: Name,
    columns: Sequence[WrittenColumn],
    keys: Sequence[WrittenColumn],
    order_by: Sequence[WrittenColumn],
    dialect: str,
) -> str:
    """Return the query of one row of the source for each key, the greatest by ``order_by``.

    >>> key, at = WrittenColumn("id", "int", None), WrittenColumn("at", "date", None)
    >>> print(decided_rows(("s", "b"), [key, at], [key], [at], "postgres"))
    SELECT DISTINCT ON ("id") "id", "at" FROM "s"."b" ORDER BY "id", "at" DESC NULLS LAST
    """
    query = exp.select(*[column_of(column.name) for column in columns]).from_(table(source))
    query.set("distinct", exp.Distinct(on=exp.Tuple(expressions=[comparable(key) for key in keys])))
    order = [exp.Ordered(this=comparable(key), nulls_first=False) for key in keys]
    query.set("order", exp.Order(expressions=[*order, *_latest(order_by)]))
    return to_sql(query, dialect)


def rows_without(source: Name, column: str, dialect: str) -> str:
    """Return the query that counts the source's rows with NULL in a column."""
    return to_sql(
        exp.select(count_where(exp.Is(this=column_of(column), expression=exp.Null()))).from_(table(source)), dialect
    )


def _ordered(column: WrittenColumn, of: str | None = None) -> exp.Expr:
    value = column_of(column.name, of)
    return bytes_of(value) if column.by_bytes or column.loose else value


def _latest(order_by: Sequence[WrittenColumn]) -> list[exp.Expr]:
    return [exp.Ordered(this=_ordered(column), desc=True, nulls_first=False) for column in order_by]


def _as_after(column: WrittenColumn) -> exp.Expr:
    """Return the value that a row of the target has in a column after the write, where that leaves the row alone."""
    value: exp.Expr = exp.Null() if column.before is None else column_of(column.name, TARGET)
    if column.before != column.type:
        value = exp.Cast(this=value, to=exp.Var(this=column.type))
    return exp.alias_(value, column.name, quoted=True)


def _union(parts: list[exp.Query]) -> exp.Query:
    first, *others = parts
    for other in others:
        first = exp.Union(this=first, expression=other, distinct=False)
    return first
