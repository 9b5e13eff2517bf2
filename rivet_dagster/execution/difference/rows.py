"""The rows that two relations do not have in common, and the difference of an environment from its base as data.

One query finds them. Only if a key turns out to be repeated, or NULL, that was meant to be unique, there is a second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any

from rivet_dagster.compiler.diff import ColumnChange
from rivet_dagster.compiler.joints import CompiledJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.check import ERROR
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import DeleteInsert, History, Upsert
from rivet_dagster.secrets.redaction import redacted
from rivet_dagster.sql.row_difference.columns import (
    ADDED,
    CHANGED,
    NEW,
    OLD,
    REMOVED,
    TypedColumn,
    compared_columns,
    not_compared,
    typed_columns,
)
from rivet_dagster.sql.row_difference.query import COUNTS, difference, difference_by_unique_key, some_rows

Value = str | int | float | bool | None
"""A value of a sample: numbers and booleans as they are, all other values as texts."""

Row = Mapping[str, Value]


@dataclass(frozen=True)
class ChangedRow:
    """A row that both versions have by its key; ``columns`` are those whose values differ."""

    old: Row
    new: Row
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Samples:
    """Some of the rows that differ, the same each time: those with the least keys."""

    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()
    changed: tuple[ChangedRow, ...] = ()


@dataclass(frozen=True)
class RowDifference:
    """The rows that two versions do not have in common.

    ``key`` are the columns by which rows were matched; without any no row counts as changed. ``columns`` are the
    numbers of changed rows in which the column differs, without those that differ in none, and None for a column whose
    values cannot be compared.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    key: tuple[str, ...] = ()
    columns: Mapping[str, int | None] = field(default_factory=dict)
    samples: Samples = Samples()

    @property
    def empty(self) -> bool:
        """Whether both versions have the same rows, as far as they can be compared."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True)
class VerdictChange:
    """A check whose verdict differs: ``passed``, ``warned`` or ``failed``, None where there was no table to judge.

    The violations are None for a check that could not run.
    """

    check: str
    kind: str
    phase: str
    severity: str
    before: str | None
    after: str | None
    violations_before: int | None = None
    violations_after: int | None = None


@dataclass(frozen=True)
class TableDifference:
    """The difference of one table; ``changed`` is why, as ``changed_logic`` returns it.

    ``rows_before`` and ``rows_after`` are all rows of the two versions; ``rows_before`` is None for a new table.
    """

    joint: str
    changed: str
    schema: tuple[ColumnChange, ...]
    rows: RowDifference
    checks: tuple[VerdictChange, ...]
    rows_before: int | None = None
    rows_after: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing but, maybe, the logic of joints differs."""
        return self.rows.empty and not self.schema and not self.checks and self.rows_before is not None


@dataclass(frozen=True)
class EnvironmentDifference:
    """The differences of all tables that were built in an environment."""

    environment: str
    tables: tuple[TableDifference, ...]


SAMPLES = 10
"""The maximum number of samples of each kind."""


def difference_of_rows(
    session: EngineSession,
    old: Frame,
    new: Frame,
    keys: Iterable[Key] = (),
    samples: int = SAMPLES,
    rows: tuple[int, int] | None = None,
) -> RowDifference:
    """Return the rows that two versions of a table do not have in common.

    They are matched by the first of ``keys`` all of whose columns can be compared. Only columns that both versions have
    are compared, and shown in up to ``samples`` rows of each kind. ``rows`` are the numbers of rows of both versions,
    if they are known. Raises RVT-503.
    """
    before, after = typed_columns_of(session, old), typed_columns_of(session, new)
    columns = compared_columns(before, after)
    names = {column.name.lower(): column.name for column in columns}
    known = (candidate for candidate in keys if all(name.lower() in names for name in candidate.columns))
    key_used = next(known, Key(()))
    key = tuple(names[name.lower()] for name in key_used.columns)
    with session.views():
        session.register(OLD, old)
        session.register(NEW, new)
        by_key = difference_by_unique_key(columns, key, samples, rows) if key_used.unique else None
        found = session.rows(by_key or difference(columns, key, samples))
        if not _counts(found)["unique"]:
            found = session.rows(difference(columns, key, samples))
    counts = _counts(found)
    by_column = dict(zip((column.name for column in columns), counts["columns"], strict=False))
    changed = {name: count for name, count in by_column.items() if count}
    return RowDifference(
        added=counts[ADDED],
        removed=counts[REMOVED],
        changed=counts[CHANGED],
        key=key,
        columns={**changed, **dict.fromkeys(not_compared(before, after))},
        samples=_samples(found, [column.name for column in columns], samples),
    )


def rows_of_new_table(session: EngineSession, new: Frame, rows: int, samples: int = SAMPLES) -> RowDifference:
    """Return the difference of a table with that number of ``rows`` from none; without samples, nothing is read."""
    if not samples or not rows:
        return RowDifference(added=rows)
    with session.views():
        session.register(NEW, new)
        sampled = session.rows(some_rows(samples))
    return RowDifference(added=rows, samples=Samples(added=tuple(shown_row(row) for row in sampled)))


def typed_columns_of(session: EngineSession, frame: Frame) -> tuple[TypedColumn, ...]:
    """Return the columns of a frame with their types."""
    return typed_columns(session.columns(frame), json.loads(session.schema(frame)))


def _counts(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next(row for row in rows if row["kind"] == COUNTS)


def _samples(sampled: Sequence[Mapping[str, Any]], names: Sequence[str], most: int) -> Samples:
    def rows(kind: str, side: str) -> list[dict[str, Any]]:
        copies = (repeat(row[side], min(row["copies"], most)) for row in sampled if row["kind"] == kind)
        return [_renamed(row, names) for row in islice(chain.from_iterable(copies), most)]

    changed = zip(rows(CHANGED, "old"), rows(CHANGED, "new"), strict=True)
    return Samples(
        tuple(shown_row(row) for row in rows(ADDED, "new")),
        tuple(shown_row(row) for row in rows(REMOVED, "old")),
        tuple(ChangedRow(shown_row(old), shown_row(new), differing_columns(old, new)) for old, new in changed),
    )


def _renamed(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[f"c{number}"] for number, name in enumerate(names)}


CHARACTERS = 200
"""The maximum length of a value, as in the samples of checks."""


def shown_row(row: Mapping[str, Any]) -> Row:
    """Return a row with values that can be shown."""
    return {name: show_value(value) for name, value in row.items()}


def show_value(value: Any) -> Value:
    """Return a number or a boolean as it is, NULL as None, and any other value as a text of at most 200 characters.

    >>> from datetime import date
    >>> [show_value(value) for value in (3, None, math.nan, date(2026, 1, 2), b"ab", {"a": [date(2026, 1, 2)]})]
    [3, None, 'NaN', '2026-01-02', '6162', '{"a": ["2026-01-02"]}']
    """
    if value is None:
        return None
    text = _text(value)
    safe = redacted(text)
    if isinstance(value, int | float) and safe == text and (isinstance(value, int) or math.isfinite(value)):
        return value
    return shorten_text(safe, CHARACTERS)


def differing_columns(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns in which two rows differ; NaN equals itself, as NULL does.

    >>> differing_columns({"a": 1, "b": math.nan, "c": None}, {"a": 2, "b": math.nan, "c": None})
    ('a',)
    """
    return tuple(name for name in new if not _same(old[name], new[name]))


def _same(old: Any, new: Any) -> bool:
    match old, new:
        case float(), float():
            return old == new or (math.isnan(old) and math.isnan(new))
        case dict(), dict():
            return old.keys() == new.keys() and all(_same(value, new[key]) for key, value in old.items())
        case list(), list():
            return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new)


def _text(value: Any) -> str:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes() | bytearray():
            return value.hex()
        case dict() | list():
            return json.dumps(_nested(value), ensure_ascii=False)
    return str(value)


def _nested(value: Any) -> Any:
    match value:
        case dict():
            return {_text(key): _nested(inner) for key, inner in value.items()}
        case list():
            return [_nested(inner) for inner in value]
        case float() if not math.isfinite(value):
            return _text(value)
        case None | int() | float() | str():
            return value
    return _text(value)


@dataclass(frozen=True)
class Key:
    """Columns by which rows are matched; ``unique`` ones are meant to have no values twice in a version."""

    columns: tuple[str, ...]
    unique: bool = False


def candidate_keys(joint: CompiledJoint, target: Target | None) -> Iterator[Key]:
    """Yield the ``key_columns`` of the table's write strategy, then the columns of each unique check, in order.

    A joint without a table has no ``target``. A history has several rows of each key, a delete_insert may have, and a
    check that only warns has let them pass.
    """
    match target.write if target is not None else None:
        case Upsert(keys=keys):
            yield Key(keys, unique=True)
        case History(keys=keys):
            yield Key(keys)
        case DeleteInsert(columns=columns, by_partition=False):
            yield Key(columns)
    for check in joint.checks:
        constraint = check.queries.constraint
        if constraint is not None and constraint.kind == "unique":
            yield Key(constraint.columns, unique=check.severity == ERROR)
