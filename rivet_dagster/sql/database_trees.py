"""Parts of the statements and queries about a table that is written to, and of the rows that are written.

The rows are in a table of their own, the source. Keys are compared null-safe: by ``=`` where the source has no NULL,
since databases use no index for IS NOT DISTINCT FROM.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

Name = tuple[str, str]
"""Schema and name of a table."""

TARGET, SOURCE = "rivet_target", "rivet_source"
"""The names of the two tables in a statement."""


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


def table(name: Name, alias: str | None = None) -> exp.Table:
    """Return a table by its schema and name."""
    schema, table_name = (exp.to_identifier(part, quoted=True) for part in name)
    as_ = exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias is not None else None
    return exp.Table(this=table_name, db=schema, alias=as_)


def match_rows(on: Matching, with_null: bool) -> exp.Expr:
    """Return the condition that a row of the target matches one of the source, in one of the parts of these."""
    conditions = [_same(key, with_null and key in on.nullable, key in on.loose) for key in on.keys]
    return exp.and_(*conditions, *([of_target(on.inside)] if on.inside is not None else []))


def _same(key: str, may_be_null: bool, is_loose: bool) -> exp.Expr:
    target, source = column_of(key, TARGET), column_of(key, SOURCE)
    equal: exp.Expr = exp.EQ(this=target, expression=source)
    if is_loose:  # the first condition is for the index
        equal = exp.and_(equal, exp.EQ(this=bytes_of(target.copy()), expression=bytes_of(source.copy())), copy=False)
    if not may_be_null:
        return equal
    nulls = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (target, source)]
    return exp.paren(exp.or_(equal, exp.and_(*nulls)), copy=False)


def null_keys(on: Matching, with_null: bool) -> list[exp.Expr]:
    """Return the condition for the rows of one part of the source; none if there is one part."""
    if not on.nullable:
        return []
    null = [exp.Is(this=column_of(key, SOURCE), expression=exp.Null()) for key in sorted(on.nullable)]
    return [exp.or_(*null)] if with_null else [exp.not_(exp.or_(*null))]


def rows_of_part(rows: exp.Select, on: Matching, with_null: bool) -> exp.Select:
    """Return a query of the source with the rows of one part."""
    conditions = null_keys(on, with_null)
    return rows.where(*conditions) if conditions else rows


def values_differ(columns: Collection[WrittenColumn], left: str, right: str) -> exp.Expr:
    """Return the condition that two rows differ in some of the columns; NULL equals NULL."""
    pairs = [(comparable(column, left), comparable(column, right)) for column in columns]
    return exp.not_(exp.paren(exp.and_(*[exp.NullSafeEQ(this=ours, expression=theirs) for ours, theirs in pairs])))


def comparable(column: WrittenColumn, of: str | None = None) -> exp.Expr:
    """Return a column so that its values can be compared."""
    return compared_value(column, column_of(column.name, of))


def compared_value(column: WrittenColumn, value: exp.Expr) -> exp.Expr:
    """Return a value of a column so that it can be compared."""
    if column.loose:
        return bytes_of(value)
    return exp.cast(value, exp.DType.TEXT) if column.without_equality else value


def bytes_of(text: exp.Expr) -> exp.Expr:
    """Return a text so that it is compared by its bytes."""
    return exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))


def of_target(condition: exp.Expr) -> exp.Expr:
    """Return a condition with the columns of the target, which have no table's name yet."""
    qualified = condition.copy()
    for column in list(qualified.find_all(exp.Column)):
        column.set("table", exp.to_identifier(TARGET, quoted=True))
    return exp.paren(qualified, copy=False)


def column_of(name: str, of: str | None = None) -> exp.Column:
    """Return a column, of the table of that name in the statement."""
    within = exp.to_identifier(of, quoted=True) if of is not None else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=within)


def count_where(condition: exp.Expr) -> exp.Expr:
    """Return the aggregate that counts the rows for which a condition is true."""
    counted = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])
    return exp.Count(this=counted)
