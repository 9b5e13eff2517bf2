"""A model of scd2 in plain Python, one row at a time: slow, and short enough to be verified by reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.model.write_plan import History
from rivet_dagster.model.write_strategy import WriteStrategy

Row = dict[str, Any]
Key = tuple[Any, ...]

ZONE = ZoneInfo("Europe/Berlin")
"""The session's time zone, in which times without a zone are."""


class Conflict(Exception):
    """Raised with the ambiguous keys of a batch and their times."""

    def __init__(self, keys: set[Key]) -> None:
        super().__init__(f"{len(keys)} keys repeat")
        self.keys = keys


@dataclass
class Version:
    begin: datetime
    end: datetime | None
    row: Row


@dataclass(frozen=True)
class Scd2:
    """The strategy with its options, for a batch of ``columns``."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    track_columns: tuple[str, ...] | None = None
    effective_at: str | None = None
    order_by: tuple[str, ...] = ()
    close_missing: bool = False
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"
    tracked: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        default = tuple(c for c in self.columns if c not in self.keys and c != self.effective_at)
        object.__setattr__(self, "tracked", default if self.track_columns is None else self.track_columns)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the write strategy, including omitted ones."""
        given = {
            "key_columns": self.keys, "track_columns": self.track_columns, "effective_at": self.effective_at,
            "order_by": self.order_by or None, "close_missing": self.close_missing or None,
            "valid_from": self.valid_from, "valid_to": self.valid_to, "is_current": self.is_current,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value not in (None, name)}

    @property
    def plan(self) -> History:
        """Return the write plan that the compiler passes to catalogs."""
        plan = WriteStrategy("scd2", options=self.options).plan
        assert isinstance(plan, History)
        return plan

    @property
    def history_columns(self) -> tuple[str, ...]:
        return (*self.columns, self.valid_from, self.valid_to, self.is_current)

    def run(self, history: Sequence[Row], batch: Sequence[Row], run: datetime) -> list[Row]:
        """Return the history after the batch; raise Conflict for ambiguous keys."""
        keys: dict[Key, list[Version]] = {}
        for row in history:
            own = {name: row[name] for name in self.columns}
            keys.setdefault(self.key(row), []).append(Version(row[self.valid_from], row[self.valid_to], own))
        last: dict[Key, Row] = {}
        for at, row in sorted(self.latest(batch, run), key=lambda pair: pair[0]):
            self.apply(keys.setdefault(self.key(row), []), at, row)
            last[self.key(row)] = row
        if self.close_missing:
            for key, versions in keys.items():
                close_or_reopen(versions, last.get(key), run)
        return [self.as_row(version) for versions in keys.values() for version in versions]

    def apply(self, versions: list[Version], at: datetime, row: Row) -> None:
        """Insert one row into the versions of its key."""
        later = [v.begin for v in versions if v.begin > at]
        found = [v for v in versions if v.begin <= at and (v.end is None or at < v.end)]
        if not found:
            versions.append(Version(at, min(later, default=None), row))
            return
        (covering,) = found
        if differ(covering.row, row, self.tracked):
            if covering.begin == at:
                covering.row = row
            else:
                versions.append(Version(at, covering.end, row))
                covering.end = at
        elif covering.end is None and not later:
            untracked = [c for c in self.columns if c not in (*self.keys, *self.tracked, self.effective_at)]
            covering.row = {**covering.row, **{c: row[c] for c in untracked}}

    def latest(self, batch: Iterable[Row], run: datetime) -> list[tuple[datetime, Row]]:
        """Return the winning row of each key and time; raise Conflict for ambiguous keys."""
        groups: dict[Key, list[Row]] = {}
        for row in batch:
            groups.setdefault((*self.key(row), self.at(row, run)), []).append(row)
        found, conflicts = [], set()
        for key, rows in groups.items():
            greatest = max(map(self.order, rows))
            first, *others = [row for row in rows if self.order(row) == greatest]
            if any(row != first for row in others):
                conflicts.add(key if self.effective_at else key[:-1])
            found.append((key[-1], first))
        if conflicts:
            raise Conflict(conflicts)
        return found

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.keys)

    def identity(self, row: Row) -> Key:
        """Return the identity of a version of the history."""
        return (*self.key(row), row[self.valid_from])

    def order(self, row: Row) -> Key:
        return tuple(
            (row[name] is not None, row[name]) if row[name] is not None else (False,) for name in self.order_by
        )

    def at(self, row: Row, run: datetime) -> datetime:
        return run if self.effective_at is None else instant(row[self.effective_at])

    def as_row(self, version: Version) -> Row:
        own = {self.valid_from: version.begin, self.valid_to: version.end, self.is_current: version.end is None}
        return {**version.row, **own}

    def difference(self, before: Sequence[Row], after: Sequence[Row]) -> tuple[int, int]:
        """Return the numbers of new and of changed versions."""
        known = {self.identity(row): row for row in before}
        found = {self.identity(row): row for row in after}
        assert known.keys() <= found.keys(), "a version is gone"
        return len(found.keys() - known.keys()), sum(found[key] != row for key, row in known.items())


def close_or_reopen(versions: list[Version], last: Row | None, run: datetime) -> None:
    """Close or reopen a key at the end of a batch, whose latest row of the key is ``last``, if any."""
    newest = max(versions, key=lambda version: version.begin)
    if last is None and newest.end is None and newest.begin < run:
        newest.end = run
    elif last is not None and newest.end is not None:
        versions.append(Version(max(run, newest.end), None, last))


def differ(one: Row, other: Row, columns: Iterable[str]) -> bool:
    return any(one[name] != other[name] for name in columns)


def instant(value: date | datetime) -> datetime:
    """Return the instant of a date, or of a time with or without a zone."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value if value.tzinfo else value.replace(tzinfo=ZONE)).astimezone(UTC)
