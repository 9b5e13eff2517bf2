"""The data files whose short texts stand in their bounds as they are.

Iceberg's specification asks of a bound only that no value is below the lower or above the upper one. Its implementation
in Java writes those of texts by the table's metrics mode when the file is written (``write.metadata.metrics.*``, by
default ``truncate(16)``): of a text of more than n characters the first n, for the upper bound with the last of them
incremented (``UnicodeUtil.truncateStringMin``, ``truncateStringMax``). So a bound of fewer than n characters is a whole
value (but of a text with U+10FFFF, which is no character, at its n-th place). The file does not say what n was, though:
the table's property may have changed since, and other writers have rules of their own. The bounds of a text count in
two cases:

- both bounds of the file are the same: all of its values are that one;
- a run of ours has written the file while n was at least ``WHOLE``, and the bounds have fewer characters than that.

The second is what ``TEXT_BOUNDS``, a property of each published snapshot, says: JSON, the ranges of sequence numbers of
the files for which it holds. The last range may be without an end, and ends with the snapshot itself. A snapshot of
another writer has no such property: the one before it then counts for the files that are older.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.summary import STAGED_FOR, TEXT_BOUNDS, TextBounds

if TYPE_CHECKING:
    from pyiceberg.table import Table

WHOLE = 16
"""Bounds of fewer characters than this are whole values; the least n for which files are recorded."""

_METRICS = "write.metadata.metrics."
_MODE = re.compile(r"full|none|counts|truncate\((\d+)\)")
_MOST = 100
"""The ranges that are recorded: more of them are there only if other engines write to the table all the time."""


@dataclass(frozen=True)
class WholeTexts:
    """The files of a snapshot, by ``ranges`` of sequence numbers, whose short texts are in their bounds as they are."""

    ranges: TextBounds

    def are_in(self, sequence_number: int | None, lower: bytes, upper: bytes) -> bool:
        """Return whether the bounds of a column in a file with that sequence number are its min and max."""
        if not (_is_text(lower) and _is_text(upper)):
            return False
        return lower == upper or (self._has(sequence_number) and _is_short(lower) and _is_short(upper))

    def before(self, last: int) -> WholeTexts:
        """Return what is known of the files up to a sequence number, which later snapshots do not change.

        >>> WholeTexts(((1, 4), (6, None))).before(5), WholeTexts(((1, 4), (6, 9))).before(7)
        (WholeTexts(ranges=((1, 4),)), WholeTexts(ranges=((1, 4), (6, 7))))
        """
        known = [(first, last if end is None else min(end, last)) for first, end in self.ranges if first <= last]
        return WholeTexts(tuple(known))

    def _has(self, sequence_number: int | None) -> bool:
        number = sequence_number or 0
        return any(first <= number and (last is None or number <= last) for first, last in self.ranges)


def whole_texts(table: Table, snapshot_id: int, written_after: int | None = None) -> WholeTexts:
    """Return the files of a snapshot whose short texts are in their bounds.

    Those with higher sequence numbers than ``written_after`` are the ones of a run that is not published yet, as are
    all files of a staging table.
    """
    if STAGED_FOR in table.metadata.properties:
        written_after = 0
    known = recorded_bounds(table, snapshot_id)
    return WholeTexts(known if written_after is None else (*known, *written_bounds(table, written_after)))


def recorded_bounds(table: Table, snapshot_id: int | None) -> TextBounds:
    """Return what is recorded of the files of a snapshot, by itself or by the last one of ours before it."""
    while snapshot_id is not None:
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            break
        facts = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if TEXT_BOUNDS in facts:
            number = snapshot.sequence_number or 0
            ranges = json.loads(facts[TEXT_BOUNDS])
            return tuple((first, number if last is None else last) for first, last in ranges)
        snapshot_id = snapshot.parent_snapshot_id
    return ()


def written_bounds(table: Table, after: int) -> TextBounds:
    """Return the range of the files that a run writes to a table after a sequence number; none if it truncates more."""
    # An engine writes by the properties of the table itself, not by those that an environment has instead.
    real = getattr(table, "real", table)
    if table.metadata.format_version < 2 or not all(_has_whole(of.metadata.properties) for of in (table, real)):
        return ()
    return ((after + 1, None),)


def bounds_after(existing: Table | None, upon: int | None, staged: Table, inherits: bool) -> TextBounds:
    """Return what to record of the files of a version that was written upon the snapshot ``upon`` of ``existing``.

    ``staged`` is the table that it was written to, as it is after that: with ``inherits`` the table itself, whose files
    are those of the version as well.
    """
    if existing is None or not inherits:
        return written_bounds(staged, 0)
    after = sequence_number_of(existing, upon)
    written = written_bounds(staged, after)
    return together(recorded_bounds(existing, upon), written if written_bounds(existing, after) else ())


def together(known: TextBounds, more: TextBounds) -> TextBounds:
    """Return both, where ranges that follow each other are one.

    >>> together(((1, 4), (9, 12)), ((13, None),))
    ((1, 4), (9, None))
    """
    joined: list[tuple[int, int | None]] = []
    for first, last in (*known, *more):
        before = joined[-1] if joined else (0, -1)
        if before[1] is not None and before[1] + 1 >= first:
            joined[-1] = (before[0], last)
        else:
            joined.append((first, last))
    return tuple(joined[-_MOST:])


def all_are_whole(table: Table, snapshot_id: int) -> bool:
    """Return whether what is recorded holds for all files of a snapshot."""
    snapshot = table.snapshot_by_id(snapshot_id)
    number = (snapshot.sequence_number or 0) if snapshot is not None else 0
    return recorded_bounds(table, snapshot_id) == ((1, number),)


def sequence_number_of(table: Table | None, snapshot_id: int | None) -> int:
    """Return the sequence number of a snapshot; 0 without one."""
    snapshot = table.snapshot_by_id(snapshot_id) if table is not None and snapshot_id is not None else None
    return (snapshot.sequence_number or 0) if snapshot is not None else 0


def _has_whole(properties: Mapping[str, str]) -> bool:
    modes = [value.lower() for key, value in properties.items() if key.startswith(_METRICS)]
    matches = [_MODE.fullmatch(mode) for mode in modes if not mode.isdigit()]
    return all(mode is not None and int(mode[1] or WHOLE) >= WHOLE for mode in matches)


def _is_text(bound: bytes) -> bool:
    """Return whether bytes are a text, and have been one: other bytes, which Spark allows, become U+FFFD in bounds."""
    try:
        return "\ufffd" not in bound.decode()
    except UnicodeDecodeError:
        return False


def _is_short(bound: bytes) -> bool:
    return len(bound.decode()) < WHOLE
