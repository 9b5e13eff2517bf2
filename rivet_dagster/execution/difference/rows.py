"""The rows that two relations do not have in common, found by one query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.difference.results import ChangedRow, RowDifference, Samples
from rivet_dagster.execution.difference.values import differing, shown_row
from rivet_dagster.sql.row_difference.columns import TypedColumn, compared_columns, not_compared, typed_columns
from rivet_dagster.sql.row_difference.query import ADDED, CHANGED, COUNTS, NEW, OLD, REMOVED, row_difference, some_rows

SAMPLES = 10
"""The maximum number of samples of each kind."""

Keys = Iterable[tuple[str, ...]]
"""Candidates for the key of a table, the best one first."""


def difference_of_rows(
    session: EngineSession, old: Frame, new: Frame, keys: Keys = (), samples: int = SAMPLES
) -> RowDifference:
    """Return the rows that two versions of a table do not have in common.

    They are matched by the first of ``keys`` all of whose columns can be compared. Only columns that both versions have
    are compared, and shown in up to ``samples`` rows of each kind. Raises RVT-503.
    """
    before, after = typed(session, old), typed(session, new)
    columns = compared_columns(before, after)
    names = {column.name.lower(): column.name for column in columns}
    key = next(filter(None, (_named(candidate, names) for candidate in keys)), ())
    with session.views():
        session.register(OLD, old)
        session.register(NEW, new)
        rows = session.rows(row_difference(columns, key, samples))
    counts = next(row for row in rows if row["kind"] == COUNTS)
    by_column = dict(zip((column.name for column in columns), counts["columns"], strict=False))
    changed = {name: count for name, count in by_column.items() if count}
    return RowDifference(
        added=counts[ADDED],
        removed=counts[REMOVED],
        changed=counts[CHANGED],
        key=key,
        columns={**changed, **dict.fromkeys(not_compared(before, after))},
        samples=_samples(rows, [column.name for column in columns], samples),
    )


def rows_of_new_table(session: EngineSession, new: Frame, rows: int, samples: int = SAMPLES) -> RowDifference:
    """Return the difference of a table with that number of ``rows`` from none; without samples, nothing is read."""
    if not samples or not rows:
        return RowDifference(added=rows)
    with session.views():
        session.register(NEW, new)
        found = session.rows(some_rows(samples))
    return RowDifference(added=rows, samples=Samples(added=tuple(shown_row(row) for row in found)))


def typed(session: EngineSession, frame: Frame) -> tuple[TypedColumn, ...]:
    """Return the columns of a frame with their types."""
    return typed_columns(session.columns(frame), json.loads(session.schema(frame)))


def _named(key: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of a key as they are called in the table; none unless it has all of them."""
    lowered = [name.lower() for name in key]
    return tuple(names[name] for name in lowered) if all(name in names for name in lowered) else ()


def _samples(found: Sequence[Mapping[str, Any]], names: Sequence[str], most: int) -> Samples:
    def rows(kind: str, side: str) -> list[dict[str, Any]]:
        copies = (repeat(row[side], min(row["copies"], most)) for row in found if row["kind"] == kind)
        return [_renamed(row, names) for row in islice(chain.from_iterable(copies), most)]

    changed = zip(rows(CHANGED, "old"), rows(CHANGED, "new"), strict=True)
    return Samples(
        tuple(shown_row(row) for row in rows(ADDED, "new")),
        tuple(shown_row(row) for row in rows(REMOVED, "old")),
        tuple(ChangedRow(shown_row(old), shown_row(new), differing(old, new)) for old, new in changed),
    )


def _renamed(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[f"c{number}"] for number, name in enumerate(names)}
