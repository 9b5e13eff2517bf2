"""Random runs of scd2, over many keys at once that have nothing to do with each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from support.scd2_model import ZONE, Row, Scd2, instant

FIRST_DAY = datetime(2026, 3, 26)
DAYS = 7
"""Few enough that rows meet; the clock of Berlin goes forward on the fourth."""

SKIPPED = datetime(2026, 3, 29, 2, 30)
"""This time that Berlin's clock never shows means the same as an hour later."""

KINDS = (None, "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
"""Of the time of effect; None for a strategy without."""


@dataclass(frozen=True)
class Run:
    started_at: datetime
    batch: list[Row]
    is_repeated: bool


@dataclass(frozen=True)
class Histories:
    strategy: Scd2
    types: dict[str, str]
    runs: list[Run]


def histories(random: Random, kind: str | None, keys: int) -> Histories:
    """One to six runs over ``keys`` keys, NULL keys among them."""
    strategy, types = _strategy(random, kind)
    runs: list[Run] = []
    started_at = _day(random).replace(tzinfo=ZONE).astimezone(UTC)
    for _ in range(random.randint(1, 6)):
        started_at += timedelta(hours=random.choice([0, 1, 24, 36, -24]))
        is_repeated = bool(runs) and random.random() < 0.25
        batch = runs[-1].batch if is_repeated else _batch(random, strategy, kind, keys)
        runs.append(Run(started_at, batch, is_repeated))
    return Histories(strategy, types, runs)


def _strategy(random: Random, kind: str | None) -> tuple[Scd2, dict[str, str]]:
    keys = random.choice([("k",), ("k", "end")])
    times = ("at",) if kind else ()
    types = dict.fromkeys((*keys, "row", "b", "first"), "INT") | dict.fromkeys(times, kind or "")
    columns = list(types)
    random.shuffle(columns)
    own = random.choice([{}, {"valid_from": "begin", "valid_to": "Valid To", "is_current": "is_new"}])
    strategy = Scd2(
        columns=tuple(columns),
        keys=keys,
        track_columns=random.choice([None, ("row",), ("b", "row"), ("row", *times)]),
        effective_at=times[0] if times else None,
        order_by=random.choice([(), ("first",), ("first", "b")]),
        close_missing=random.random() < 0.5,
        **own,
    )
    return strategy, {name: types[name] for name in columns}


def _batch(random: Random, strategy: Scd2, kind: str | None, keys: int) -> list[Row]:
    """Rows of some of the keys, in any order; some of them repeat, wholly or but for their values."""
    rows: list[Row] = []
    present = random.choice([0, 0.3, 0.7, 1])
    for position in range(keys):
        key: Row = {"k": position or None, "end": random.choice([1, 1, None])}
        for _ in range(random.choice([1, 1, 2, 3, 5]) if random.random() < present else 0):
            row = {**key, "at": _time(random, kind), **{name: _value(random) for name in ("row", "b", "first")}}
            rows += [row] * random.choice([1, 1, 1, 2])
    random.shuffle(rows)
    return [{name: row[name] for name in strategy.columns} for row in rows]


def _value(random: Random) -> int | None:
    return random.choice([None, 0, 1, 2])


def _day(random: Random) -> datetime:
    return FIRST_DAY + timedelta(days=random.randrange(DAYS))


def _time(random: Random, kind: str | None) -> Any:
    day = _day(random)
    if kind == "DATE":
        return date(day.year, day.month, day.day)
    if kind == "TIMESTAMP":
        return instant(day)
    return random.choice([day, day, SKIPPED, SKIPPED + timedelta(hours=1)])


def without_conflicts(strategy: Scd2, batch: list[Row], conflicts: set[tuple[Any, ...]], run: datetime) -> list[Row]:
    """The batch but for the rows of those keys and times."""
    times = 1 if strategy.effective_at else 0

    def identity(row: Row) -> tuple[Any, ...]:
        return (*strategy.key(row), *[strategy.at(row, run)][:times])

    return [row for row in batch if identity(row) not in conflicts]
