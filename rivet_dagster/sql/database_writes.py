"""The statements by which a database carries out write plans, in its own SQL, and the queries of what they result in.

The rows to be written are in a table of their own, the source. Keys are compared null-safe: by ``=`` where the source
has no NULL, since databases use no index for IS NOT DISTINCT FROM.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from rivet_dagster.sql.mariadb import to_sql

Name = tuple[str, str]
"""Schema and name of a table."""

_TARGET, _SOURCE, _KEYS = "rivet_target", "rivet_source", "rivet_keys"
_IS_NEW, _WRITTEN, _PLACE = "rivet_is_new", "rivet_written", "rivet_place"


@dataclass(frozen=True)
class WrittenColumn:
    """A column that a write fills: its ``type`` in the database, and what the target has in its place before.

    ``before`` is the type that the target's column has before the write, None if it has none. Values
    ``without_equality`` are compared by their texts; texts ``by_bytes`` are ordered by their bytes, as engines do.
    Texts that are ``loose`` are compared by them, too: their own collation takes different ones for equal.
    """

    name: str
    type: str
    before: str | None
    without_equality: bool = False
    by_bytes: bool = False
    loose: bool = False


@dataclass(frozen=True)
class Matching:
    """The rows of the target that rows of the source match: by ``keys``, ``inside`` of a condition on the target.

    ``nullable`` are the keys in which the source has NULL, ``loose`` those whose collation takes others for equal.
    """

    keys: tuple[str, ...]
    nullable: frozenset[str] = frozenset()
    inside: exp.Expr | None = None
    loose: frozenset[str] = frozenset()

    def parts(self) -> list[bool]:
        """Return the parts in which the source's rows are processed: False those without NULL, True those with it."""
        return [False, True] if self.nullable else [False]


def delete_rows(target: Name, inside: exp.Expr | None, dialect: str) -> str:
    """Return the DELETE of all rows, or of those ``inside`` of a condition.

    >>> delete_rows(("shop", "orders"), None, "postgres")
    'DELETE FROM "shop"."orders" AS "rivet_target"'
    """
    where = exp.Where(this=_of_target(inside)) if inside is not None else None
    return to_sql(exp.Delete(this=table(target, _TARGET), where=where), dialect)


def delete_matching(target: Name, source: Name, on: Matching, dialect: str) -> list[str]:
    """Return the statements that delete the rows of the target whose keys occur in the source.

    >>> print(*delete_matching(("s", "t"), ("s", "b"), Matching(("day",)), "postgres"))
    DELETE FROM "s"."t" AS "rivet_target" USING (SELECT DISTINCT "rivet_source"."day" FROM "s"."b" AS "rivet_source")
    AS "rivet_source" WHERE "rivet_target"."day" = "rivet_source"."day"
    """
    statements = []
    for with_null in on.parts():
        distinct = exp.select(*[_of(key, _SOURCE) for key in on.keys]).from_(table(source, _SOURCE))
        distinct = distinct if on.loose else distinct.distinct()
        using = _part(distinct, on, with_null).subquery(exp.to_identifier(_SOURCE, quoted=True))
        where = exp.Where(this=_match(on, with_null))
        statements.append(to_sql(exp.Delete(this=table(target, _TARGET), using=[using], where=where), dialect))
    return statements


def insert_rows(target: Name, columns: Sequence[WrittenColumn], rows: exp.Query, dialect: str) -> str:
    """Return the INSERT of ``rows``, which have the ``columns`` in this order.

    >>> print(insert_rows(("s", "t"), [WrittenColumn("id", "int", None)], source_rows(("s", "b"), ["id"]), "postgres"))
    INSERT INTO "s"."t" ("id") SELECT "rivet_source"."id" FROM "s"."b" AS "rivet_source"
    """
    return to_sql(_insert(table(target), columns, rows), dialect)


def insert_or_update(
    target: Name, columns: Sequence[WrittenColumn], source: Name, keys: Sequence[str], dialect: str
) -> str:
    """Return the query that upserts by a unique index of ``keys``, and counts: new rows, then updated ones.

    A row that is there already as it is, is left alone.

    >>> columns = [WrittenColumn("id", "int", "int"), WrittenColumn("n", "int", "int")]
    >>> print(insert_or_update(("s", "t"), columns, ("s", "b"), ["id"], "postgres"))
    WITH "rivet_written" AS (INSERT INTO "s"."t" AS "rivet_target" ("id", "n")
      SELECT "rivet_source"."id", "rivet_source"."n" FROM "s"."b" AS "rivet_source"
      ON CONFLICT("id") DO UPDATE SET "id" = "excluded"."id", "n" = "excluded"."n"
      WHERE NOT ("rivet_target"."id" IS NOT DISTINCT FROM "excluded"."id"
        AND "rivet_target"."n" IS NOT DISTINCT FROM "excluded"."n")
      RETURNING xmax = 0 AS "rivet_is_new")
    SELECT COUNT(CASE WHEN "rivet_is_new" THEN 1 END), COUNT(CASE WHEN NOT "rivet_is_new" THEN 1 END)
    FROM "rivet_written"
    """
    names = [column.name for column in columns]
    write = _insert(table(target, _TARGET), columns, source_rows(source, names))
    assigned = [exp.EQ(this=_of(name), expression=_of(name, "excluded")) for name in names]
    conflict = exp.OnConflict(
        conflict_keys=[_of(key) for key in keys],
        action=exp.Var(this="DO UPDATE"),
        expressions=assigned,
        where=exp.Where(this=_differs(columns, _TARGET, "excluded")),
    )
    # A row that an INSERT has made has no transaction that has locked or replaced it.
    is_new = exp.EQ(this=exp.column("xmax"), expression=exp.Literal.number(0))
    write.set("conflict", conflict)
    write.set("returning", exp.Returning(expressions=[exp.alias_(is_new, _IS_NEW, quoted=True)]))
    counts = [_count_where(_of(_IS_NEW)), _count_where(exp.not_(_of(_IS_NEW)))]
    written = exp.to_identifier(_WRITTEN, quoted=True)
    return to_sql(exp.select(*counts).from_(exp.Table(this=written)).with_(written, as_=write), dialect)


def update_differing(
    target: Name, columns: Sequence[WrittenColumn], source: Name, on: Matching, dialect: str
) -> list[str]:
    """Return the statements that give the rows of the target which match the values of the source, if these differ.

    >>> columns = [WrittenColumn("id", "int", "int")]
    >>> print(*update_differing(("s", "t"), columns, ("s", "b"), Matching(("id",)), "postgres"))
    UPDATE "s"."t" AS "rivet_target" SET "id" = "rivet_source"."id" FROM "s"."b" AS "rivet_source"
    WHERE "rivet_target"."id" = "rivet_source"."id"
    AND NOT ("rivet_target"."id" IS NOT DISTINCT FROM "rivet_source"."id")
    """
    statements = []
    for with_null in on.parts():
        assigned = [exp.EQ(this=_of(column.name), expression=_of(column.name, _SOURCE)) for column in columns]
        where = exp.and_(_match(on, with_null), *_nulls(on, with_null), _differs(columns, _TARGET, _SOURCE))
        update = exp.Update(
            this=table(target, _TARGET),
            expressions=assigned,
            from_=exp.From(this=table(source, _SOURCE)),
            where=exp.Where(this=where),
        )
        statements.append(to_sql(update, dialect))
    return statements


def source_rows(source: Name, names: Sequence[str]) -> exp.Select:
    """Return the query of all rows of the source."""
    return exp.select(*[_of(name, _SOURCE) for name in names]).from_(table(source, _SOURCE))


def unmatched_rows(target: Name, source: Name, names: Sequence[str], on: Matching) -> exp.Query:
    """Return the query of the rows of the source that match no row of the target."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        found = exp.select(exp.Literal.number(1)).from_(table(target, _TARGET)).where(_match(on, with_null))
        rows = _part(source_rows(source, names), on, with_null)
        parts.append(rows.where(exp.not_(exp.Exists(this=found))))
    return _union(parts)


def newer_rows(
    target: Name, source: Name, names: Sequence[str], column: WrittenColumn, inside: exp.Expr | None
) -> exp.Select:
    """Return the query of the source's rows whose ``column`` is greater than all values that the target has in it."""
    greatest = exp.select(exp.Max(this=_ordered(column, _TARGET))).from_(table(target, _TARGET))
    if inside is not None:
        greatest = greatest.where(_of_target(inside))
    newest = greatest.subquery()
    is_newer = exp.GT(this=_ordered(column, _SOURCE), expression=newest)
    return source_rows(source, names).where(exp.or_(exp.Is(this=newest.copy(), expression=exp.Null()), is_newer))


def remaining_rows(
    target: Name, columns: Sequence[WrittenColumn], source: Name | None, on: Matching | None
) -> exp.Select:
    """Return the query of the target's rows, as they are after the write, that match no row of the source.

    Without ``on`` these are all; with ``on`` and without a source those that are not inside of its condition.
    """
    rows = exp.select(*[_as_after(column) for column in columns]).from_(table(target, _TARGET))
    if on is None:
        return rows
    if source is None:
        assert on.inside is not None
        return rows.where(exp.not_(exp.Coalesce(this=_of_target(on.inside), expressions=[exp.false()])))
    for with_null in on.parts():
        found = exp.select(exp.Literal.number(1)).from_(table(source, _SOURCE)).where(_match(on, with_null))
        rows = rows.where(exp.not_(exp.Exists(this=_part(found, on, with_null))))
    return rows


def matched_rows(target: Name, source: Name, names: Sequence[str], on: Matching) -> exp.Query:
    """Return the query of the source's rows, one for each row of the target that it matches."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        rows = source_rows(source, names).join(table(target, _TARGET), on=_match(on, with_null))
        parts.append(_part(rows, on, with_null))
    return _union(parts)


def differing_rows(target: Name, columns: Sequence[WrittenColumn], source: Name, on: Matching) -> exp.Query:
    """Return the query of 1 for each row of the target that ``update_differing`` updates."""
    parts: list[exp.Query] = []
    for with_null in on.parts():
        rows = exp.select(exp.Literal.number(1)).from_(table(source, _SOURCE))
        rows = rows.join(table(target, _TARGET), on=_match(on, with_null))
        parts.append(_part(rows, on, with_null).where(_differs(columns, _TARGET, _SOURCE)))
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
            return _of(spelled.get(node.name.lower(), node.name))
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


def delete_others(source: Name, column: str, values: Sequence[int], dialect: str) -> str:
    """Return the DELETE of the rows that have none of the ``values`` in a column.

    >>> delete_others(("s", "b"), "attempt", [1, 2], "postgres")
    'DELETE FROM "s"."b" WHERE NOT "attempt" IN (1, 2)'
    """
    known = exp.In(this=_of(column), expressions=[exp.Literal.number(value) for value in values])
    return to_sql(
        exp.Delete(this=table(source), where=exp.Where(this=exp.not_(known) if values else exp.true())), dialect
    )


def keys_with_null(source: Name, keys: Sequence[str], dialect: str) -> str:
    """Return the query that counts, for each key, the source's rows in which it is NULL."""
    counts = [_count_where(exp.Is(this=_of(key), expression=exp.Null())) for key in keys]
    return to_sql(exp.select(*counts).from_(table(source)), dialect)


def repeated_key(source: Name, keys: Sequence[WrittenColumn], dialect: str) -> str:
    """Return the query of one row if some key occurs more than once, else of none."""
    query = exp.select(exp.Literal.number(1)).from_(table(source)).group_by(*map(_comparable, keys))
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
        this=exp.Rank(), partition_by=[_comparable(key) for key in keys], order=exp.Order(expressions=_latest(order_by))
    )
    chosen = [exp.alias_(_of(key.name), f"key_{number}", quoted=True) for number, key in enumerate(keys)]
    values = [exp.alias_(_comparable(column), f"value_{number}") for number, column in enumerate(columns)]
    places = window if order_by else exp.Literal.number(1)
    ranked = exp.select(*chosen, *values, exp.alias_(places, _PLACE)).from_(table(source)).subquery("ranked")
    first = exp.EQ(this=exp.column(_PLACE), expression=exp.Literal.number(1))
    compared = [exp.alias_(_text_if(key, _of(f"key_{number}")), f"key_{number}") for number, key in enumerate(keys)]
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
    query = exp.select(*[_of(column.name) for column in columns]).from_(table(source))
    query.set("distinct", exp.Distinct(on=exp.Tuple(expressions=[_comparable(key) for key in keys])))
    order = [exp.Ordered(this=_comparable(key), nulls_first=False) for key in keys]
    query.set("order", exp.Order(expressions=[*order, *_latest(order_by)]))
    return to_sql(query, dialect)


def rows_without(source: Name, column: str, dialect: str) -> str:
    """Return the query that counts the source's rows with NULL in a column."""
    return to_sql(
        exp.select(_count_where(exp.Is(this=_of(column), expression=exp.Null()))).from_(table(source)), dialect
    )


def table(name: Name, alias: str | None = None) -> exp.Table:
    """Return a table by its schema and name."""
    schema, own = (exp.to_identifier(part, quoted=True) for part in name)
    as_ = exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias is not None else None
    return exp.Table(this=own, db=schema, alias=as_)


def _insert(target: exp.Table, columns: Sequence[WrittenColumn], rows: exp.Query) -> exp.Insert:
    names = [exp.to_identifier(column.name, quoted=True) for column in columns]
    return exp.Insert(this=exp.Schema(this=target, expressions=names), expression=rows)


def _match(on: Matching, with_null: bool) -> exp.Expr:
    """Return the condition that a row of the target matches one of the source, in one of the parts of these."""
    conditions = [_same(key, with_null and key in on.nullable, key in on.loose) for key in on.keys]
    return exp.and_(*conditions, *([_of_target(on.inside)] if on.inside is not None else []))


def _same(key: str, may_be_null: bool, is_loose: bool) -> exp.Expr:
    target, source = _of(key, _TARGET), _of(key, _SOURCE)
    equal: exp.Expr = exp.EQ(this=target, expression=source)
    if is_loose:  # the first condition is for the index
        equal = exp.and_(equal, exp.EQ(this=_bytes_of(target.copy()), expression=_bytes_of(source.copy())), copy=False)
    if not may_be_null:
        return equal
    nulls = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (target, source)]
    return exp.paren(exp.or_(equal, exp.and_(*nulls)), copy=False)


def _nulls(on: Matching, with_null: bool) -> list[exp.Expr]:
    """Return the condition for the rows of one part of the source; none if there is one part."""
    if not on.nullable:
        return []
    null = [exp.Is(this=_of(key, _SOURCE), expression=exp.Null()) for key in sorted(on.nullable)]
    return [exp.or_(*null)] if with_null else [exp.not_(exp.or_(*null))]


def _part(rows: exp.Select, on: Matching, with_null: bool) -> exp.Select:
    conditions = _nulls(on, with_null)
    return rows.where(*conditions) if conditions else rows


def _differs(columns: Collection[WrittenColumn], left: str, right: str) -> exp.Expr:
    pairs = [(_comparable(column, left), _comparable(column, right)) for column in columns]
    return exp.not_(exp.paren(exp.and_(*[exp.NullSafeEQ(this=ours, expression=theirs) for ours, theirs in pairs])))


def _comparable(column: WrittenColumn, of: str | None = None) -> exp.Expr:
    return _text_if(column, _of(column.name, of))


def _text_if(column: WrittenColumn, value: exp.Expr) -> exp.Expr:
    if column.loose:
        return _bytes_of(value)
    return exp.cast(value, exp.DType.TEXT) if column.without_equality else value


def _bytes_of(text: exp.Expr) -> exp.Expr:
    return exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))


def _ordered(column: WrittenColumn, of: str | None = None) -> exp.Expr:
    value = _of(column.name, of)
    return _bytes_of(value) if column.by_bytes or column.loose else value


def _latest(order_by: Sequence[WrittenColumn]) -> list[exp.Expr]:
    return [exp.Ordered(this=_ordered(column), desc=True, nulls_first=False) for column in order_by]


def _as_after(column: WrittenColumn) -> exp.Expr:
    """Return the value that a row of the target has in a column after the write, where that leaves the row alone."""
    value: exp.Expr = exp.Null() if column.before is None else _of(column.name, _TARGET)
    if column.before != column.type:
        value = exp.Cast(this=value, to=exp.Var(this=column.type))
    return exp.alias_(value, column.name, quoted=True)


def _of_target(condition: exp.Expr) -> exp.Expr:
    """Return a condition with the columns of the target, which have no table's name yet."""
    own = condition.copy()
    for found in list(own.find_all(exp.Column)):
        found.set("table", exp.to_identifier(_TARGET, quoted=True))
    return exp.paren(own, copy=False)


def _count_where(condition: exp.Expr) -> exp.Expr:
    counted = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])
    return exp.Count(this=counted)


def _union(parts: list[exp.Query]) -> exp.Query:
    first, *others = parts
    for other in others:
        first = exp.Union(this=first, expression=other, distinct=False)
    return first


def _of(name: str, of: str | None = None) -> exp.Column:
    within = exp.to_identifier(of, quoted=True) if of is not None else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=within)
