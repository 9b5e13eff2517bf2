"""The rows that two relations do not have in common.

One query finds them. Only if a key turns out to be repeated, or NULL, that was meant to be unique, there is a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.difference.keys import Key
from rivet_dagster.execution.difference.results import ChangedRow, RowDifference, Samples
from rivet_dagster.execution.difference.values import differing, shown_row
from rivet_dagster.sql.row_difference.columns import TypedColumn, compared_columns, not_compared, typed_columns
from rivet_dagster.sql.row_difference.parts import ADDED, CHANGED, NEW, OLD, REMOVED
from rivet_dagster.sql.row_difference.query import COUNTS, difference, difference_by_unique_key, some_rows

SAMPLES = 10
"""The maximum number of samples of each kind."""


def difference_of_rows(
    session: EngineSession, old: Frame, new: Frame, keys: Iterable[Key] = (), samples: int = SAMPLES
) -> RowDifference:
    """Return the rows that two versions of a table do not have in common.

    They are matched by the first of ``keys`` all of whose columns can be compared. Only columns that both versions have
    are compared, and shown in up to ``samples`` rows of each kind. Raises RVT-503.
    """
    before, after = typed(session, old), typed(session, new)
    columns = compared_columns(before, after)
    names = {column.name.lower(): column.name for column in columns}
    known = (candidate for candidate in keys if all(name.lower() in names for name in candidate.columns))
    found = next(known, Key(()))
    key = tuple(names[name.lower()] for name in found.columns)
    with session.views():
        session.register(OLD, old)
        session.register(NEW, new)
        rows = session.rows((difference_by_unique_key if found.unique else difference)(columns, key, samples))
        if not _counts(rows)["unique"]:
            rows = session.rows(difference(columns, key, samples))
    counts = _counts(rows)
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


def _counts(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next(row for row in rows if row["kind"] == COUNTS)


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
