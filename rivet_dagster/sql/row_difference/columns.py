"""The columns that two versions of a table are compared by, and the names and conditions of the query that does it.

For each type that a column can have there is an expression of its values that Spark can group, order and compare. A
type is written as in the JSON of Spark's schemas: a name such as ``long``, or an object for nested types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from rivet_dagster.sql.write_strategies.alignment import wider
from rivet_dagster.sql.write_strategies.trees import plain_column


@dataclass(frozen=True)
class TypedColumn:
    """A column of one version: ``type`` as Spark's SQL writes it, ``kind`` as the JSON of Spark's schemas has it."""

    name: str
    type: str
    kind: Any


@dataclass(frozen=True)
class ComparedColumn:
    """A column that both versions have, maybe in another letter case; ``type`` holds the values of both."""

    old: TypedColumn
    new: TypedColumn
    type: str

    @property
    def name(self) -> str:
        """The name in the newer version."""
        return self.new.name

    def value(self, typed: TypedColumn) -> exp.Expr:
        """Return the expression of its value in the version whose column is ``typed``, as it is compared."""
        value = plain_column(typed.name)
        if typed.type != self.type:
            return exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=self.type))
        return comparable(value, typed.kind)


def typed_columns(columns: Iterable[tuple[str, str]], schema: Mapping[str, Any]) -> tuple[TypedColumn, ...]:
    """Return the columns of a version, from names and types and from Spark's schema, parsed from JSON."""
    pairs = zip(columns, schema["fields"], strict=True)
    return tuple(TypedColumn(name, type_, field["type"]) for (name, type_), field in pairs)


def compared_columns(old: Sequence[TypedColumn], new: Sequence[TypedColumn]) -> tuple[ComparedColumn, ...]:
    """Return the columns that both versions have and whose values can be compared, in the order of the newer one.

    A column with another type is compared if one of the types holds every value of both, as when a write widens it.

    >>> old = [TypedColumn("ID", "int", "integer"), TypedColumn("net", "string", "string")]
    >>> new = [TypedColumn("net", "double", "double"), TypedColumn("id", "bigint", "long")]
    >>> [(column.name, column.type) for column in compared_columns(old, new)]
    [('id', 'bigint')]
    """
    before = {column.name.lower(): column for column in old}
    compared = []
    for now in new:
        was = before.get(now.name.lower())
        type_ = wider(was.type, now.type) if was is not None else None
        if was is not None and type_ is not None and is_comparable(now.kind):
            compared.append(ComparedColumn(was, now, type_))
    return tuple(compared)


def not_compared(old: Sequence[TypedColumn], new: Sequence[TypedColumn]) -> tuple[str, ...]:
    """Return the names of columns that both versions have, with one type whose values Spark cannot compare.

    >>> not_compared([TypedColumn("i", "interval", "interval")], [TypedColumn("i", "interval", "interval")])
    ('i',)
    """
    before = {column.name.lower(): column for column in old}
    return tuple(
        now.name
        for now in new
        if (was := before.get(now.name.lower())) is not None and was.type == now.type and not is_comparable(now.kind)
    )


_PLAIN = re.compile(
    r"(boolean|byte|short|integer|long|float|double|decimal\(.*\)|(string|char|varchar)\b.*|binary|date"
    r"|timestamp|timestamp_ntz|time\(\d+\)|interval .+)\Z"
)
"""The names of types whose values Spark compares, groups and orders; ``interval`` alone is none of them."""

_VARIANT = "variant"


def is_comparable(kind: Any) -> bool:
    """Return whether two values of a type can be compared, if need be by what ``comparable`` makes of them.

    >>> is_comparable("long"), is_comparable("variant"), is_comparable("interval"), is_comparable("geometry(4326)")
    (True, True, False, False)
    """
    if isinstance(kind, str):
        return kind == _VARIANT or _PLAIN.match(kind) is not None
    match kind.get("type"):
        case "struct":
            return all(is_comparable(field["type"]) for field in kind["fields"])
        case "array":
            return is_comparable(kind["elementType"])
        case "map":
            return is_comparable(kind["keyType"]) and is_comparable(kind["valueType"])
    return False


def comparable(value: exp.Expr, kind: Any, depth: int = 0) -> exp.Expr:
    """Return ``value`` as one that Spark compares; two of them are equal if and only if the values are.

    A map is the list of its entries, ordered by key, wherever in the value it is, and a variant is its JSON text.
    ``depth`` is the number of lambda functions around it.

    >>> column = exp.column("c", quoted=True)
    >>> comparable(column, "double").sql("spark")
    '`c`'
    >>> comparable(column, {"type": "map", "keyType": "string", "valueType": "variant"}).sql("spark")
    'ARRAY_SORT(TRANSFORM(MAP_ENTRIES(`c`), e0 -> STRUCT(e0.key AS key, TO_JSON(e0.value) AS value)))'
    """
    if not _needs_change(kind):
        return value
    if kind == _VARIANT:
        return _call("TO_JSON", value)
    inner = f"e{depth}"
    match kind["type"]:
        case "array":
            return _transformed(value, inner, comparable(_name(inner), kind["elementType"], depth + 1))
        case "map":
            entry = [
                _named(comparable(_field(_name(inner), "key"), kind["keyType"], depth + 1), "key"),
                _named(comparable(_field(_name(inner), "value"), kind["valueType"], depth + 1), "value"),
            ]
            entries = _transformed(_call("MAP_ENTRIES", value), inner, exp.Struct(expressions=entry))
            return _call("ARRAY_SORT", entries)
    fields = [
        _named(comparable(_field(value, field["name"], quoted=True), field["type"], depth), f"f{number}")
        for number, field in enumerate(kind["fields"])
    ]
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.If(this=is_null, true=exp.Null(), false=exp.Struct(expressions=fields))


def _needs_change(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind == _VARIANT
    match kind["type"]:
        case "struct":
            return any(_needs_change(field["type"]) for field in kind["fields"])
        case "array":
            return _needs_change(kind["elementType"])
    return True


def _transformed(value: exp.Expr, inner: str, by: exp.Expr) -> exp.Expr:
    return _call("TRANSFORM", value, exp.Lambda(this=by, expressions=[exp.to_identifier(inner)]))


def _call(function: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _name(inner: str) -> exp.Expr:
    return exp.Column(this=exp.to_identifier(inner))


def _field(value: exp.Expr, name: str, quoted: bool = False) -> exp.Expr:
    return exp.Dot(this=value.copy(), expression=exp.to_identifier(name, quoted=quoted))


def _named(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name))


OLD, NEW = "rivet_old", "rivet_new"
"""The relations that the query reads."""

OLD_ROWS, NEW_ROWS = "old_rows", "new_rows"
"""Their compared columns, as ``c0``, ``c1``, ..."""

FOUND = "found"
"""The relation of what is counted and sampled.

Its columns are those of the key, or all without one; ``old`` and ``new``, structs of ``c0``, ``c1``, ..., NULL where
the version has no such row, and both NULL for equal rows; and ``copy``, how many rows one of its rows stands for.
"""

OLD_ROW, NEW_ROW, COPY = "old", "new", "copy"

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
"""Kinds of rows that differ."""


def is_kind(kind: str) -> exp.Expr:
    """Return the condition that a row of ``found`` is of a kind."""
    has_old, has_new = (exp.not_(exp.Is(this=plain_column(name), expression=exp.Null())) for name in (OLD_ROW, NEW_ROW))
    if kind == ADDED:
        return exp.and_(exp.not_(has_old), has_new)
    if kind == REMOVED:
        return exp.and_(has_old, exp.not_(has_new))
    return exp.and_(has_old, has_new)


def rows_where(condition: exp.Expr) -> exp.Expr:
    """Return the number of rows for which ``found`` stands where a condition holds."""
    total = exp.Filter(this=exp.Sum(this=plain_column(COPY)), expression=exp.Where(this=condition))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


def once() -> exp.Expr:
    """Return a column for which Spark computes a CTE once, however often it is read: no deterministic one has it."""
    return exp.Alias(this=exp.Anonymous(this="MONOTONICALLY_INCREASING_ID"), alias=exp.to_identifier("once"))


def columns_of(names: Sequence[str]) -> list[exp.Expr]:
    """Return the columns ``names``."""
    return [plain_column(name) for name in names]


def one() -> exp.Expr:
    """Return 1 in the type of a sum."""
    return exp.Cast(this=exp.Literal.number(1), to=exp.DataType(this=exp.DType.BIGINT))
