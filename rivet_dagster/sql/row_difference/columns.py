"""The columns of two versions of a table: which are compared, and as what type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from rivet_dagster.sql.row_difference.comparable import comparable, is_comparable
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

    def value(self, own: TypedColumn) -> exp.Expr:
        """Return the expression of its value in the version whose column is ``own``, as it is compared."""
        value = plain_column(own.name)
        if own.type != self.type:
            return exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=self.type))
        return comparable(value, own.kind)


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
    found = []
    for now in new:
        was = before.get(now.name.lower())
        type_ = wider(was.type, now.type) if was is not None else None
        if was is not None and type_ is not None and is_comparable(now.kind):
            found.append(ComparedColumn(was, now, type_))
    return tuple(found)


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
