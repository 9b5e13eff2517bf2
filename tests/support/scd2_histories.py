"""Random runs of scd2 with many independent keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from rivet_dagster.sql.write_strategies.merge import SHOWN
from support.scd2_model import ZONE, Conflict, Key, Row, Scd2, instant
from support.scd2_runs import DuckDb, Runs, Spark

FIRST_DAY = datetime(2026, 3, 26)
DAYS = 7
"""Times, few enough that rows share them; daylight saving time begins in Berlin on the fourth."""

SKIPPED = datetime(2026, 3, 29, 2, 30)
"""A local time that does not exist in Berlin means the same as an hour later."""

KINDS = (None, "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
"""Types of ``effective_at``; None for a strategy without it."""

ALL_SEEN = {"conflict", "repeated", "open", "closed", "adjacent", "gap", "NULL key"}
"""The events that ``follow`` returns for enough histories."""


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
    """Generate one to six runs with ``keys`` keys, including NULL."""
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
    """Return rows of some of the keys, in any order; some are duplicates, with equal or other values."""
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


def follow(engine: Spark | DuckDb, found: Histories) -> set[str]:
    """Run the history and compare it with the model after each run; return the events that have occurred."""
    strategy, runs = found.strategy, Runs(engine, found.strategy, found.types)
    history: list[Row] = []
    seen: set[str] = set()
    for run in found.runs:
        conflicts = conflicts_of(strategy, run)
        shown = runs.conflicts(run.batch, run.started_at)
        assert len(shown) == min(len(conflicts), SHOWN)
        assert {_shown_key(row) for row in shown} <= conflicts
        batch = without_keys(strategy, run, conflicts)

        expected = strategy.run(history, batch, run.started_at)
        outcome = runs.run(history, batch, run.started_at)
        assert_same(strategy, outcome.rows, expected, batch, run)
        assert outcome.counts == strategy.difference(history, expected)
        seen |= assert_sound(strategy, expected)
        if run.is_repeated and strategy.effective_at and not strategy.close_missing:
            assert outcome.counts == (0, 0)
            seen.add("repeated")
        if conflicts:
            seen.add("conflict")
        history = expected
    return seen


def follow_plain(engine: Spark | DuckDb, found: Histories) -> set[str]:
    """Compare the unusual keys of each batch with its rows, and the plain changes of its other keys with the model.

    Return what the batches had.
    """
    strategy, runs = found.strategy, Runs(engine, found.strategy, found.types)
    history: list[Row] = []
    seen: set[str] = set()
    for run in found.runs:
        expected = unusual_keys_of(strategy, history, run)
        shown = runs.unusual_keys(history, run.batch, run.started_at, 1000)
        assert sorted(shown, key=repr) == sorted(expected, key=repr)
        few = runs.unusual_keys(history, run.batch, run.started_at, 2)
        late = sum(is_late for *_, is_late, _, _ in expected)
        assert len(few) == min(2, len(expected))
        assert sum(is_late for *_, is_late, _, _ in few) == min(2, late), "late keys come first"

        seen |= {f"late {late}, several {several}, known {known}" for *_, late, several, known in expected}
        new = {key for *key_, late, several, known in expected for key in [tuple(key_)] if not (several or known)}
        unusual = {tuple(key) for *key, _, _, _ in expected}
        for has_new_keys, left_out in ((False, unusual), (True, unusual - new)):
            batch = [row for row in run.batch if strategy.key(row) not in left_out]
            outcome = runs.run(history, batch, run.started_at, has_new_keys)
            after = strategy.run(history, batch, run.started_at)
            assert_same(strategy, outcome.rows, after, batch, run)
            assert outcome.counts == strategy.difference(history, after)
            inserted, updated = outcome.counts
            seen |= {f"new keys {has_new_keys}"} if inserted or updated else set()
            seen |= {"overwritten"} if updated > inserted else set()
        conflicts = conflicts_of(strategy, run)
        history = strategy.run(history, without_keys(strategy, run, conflicts), run.started_at)
    return seen


def unusual_keys_of(strategy: Scd2, history: list[Row], run: Run) -> list[Key]:
    """Return the keys of a batch that are late or have several rows, with LATE, SEVERAL and KNOWN."""
    times: dict[Key, list[datetime]] = {}
    for row in run.batch:
        times.setdefault(strategy.key(row), []).append(strategy.at(row, run.started_at))
    known = {strategy.key(row) for row in history}
    begins = {strategy.key(row): row[strategy.valid_from] for row in history if row[strategy.valid_to] is None}
    keys = [
        (*key, key not in begins or begins[key] > min(own), len(own) > 1, key in known) for key, own in times.items()
    ]
    return [key for key in keys if key[-3] or key[-2]]


def without_keys(strategy: Scd2, run: Run, keys: set[Key]) -> list[Row]:
    """Return the rows of a batch without those of some keys, with their times."""
    return [row for row in run.batch if _batch_key(strategy, row, run) not in keys]


def conflicts_of(strategy: Scd2, run: Run) -> set[Key]:
    """Return the ambiguous keys of the batch, with their times."""
    try:
        strategy.latest(run.batch, run.started_at)
    except Conflict as conflict:
        return conflict.keys
    return set()


def _batch_key(strategy: Scd2, row: Row, run: Run) -> Key:
    return (*strategy.key(row), strategy.at(row, run.started_at)) if strategy.effective_at else strategy.key(row)


def _shown_key(row: Row) -> Key:
    return tuple(row.values())


def assert_same(strategy: Scd2, found: list[Row], expected: list[Row], batch: list[Row], run: Run) -> None:
    """Assert equal rows, with everything about the first key that differs."""
    different = [strategy.key(row) for row in expected if row not in found]
    different += [strategy.key(row) for row in found if row not in expected]
    if different or len(found) != len(expected):
        key = different[0] if different else None
        own = [[row for row in rows if strategy.key(row) == key] for rows in (batch, found, expected)]
        raise AssertionError(f"{strategy} at {run.started_at}, batch, found, expected: {own}")


def assert_sound(strategy: Scd2, history: list[Row]) -> set[str]:
    """Assert that versions of a key do not overlap, have gaps or ends only if keys are closed, and one is current."""
    keys: dict[Key, list[tuple[datetime, datetime | None]]] = {}
    for row in history:
        keys.setdefault(strategy.key(row), []).append((row[strategy.valid_from], row[strategy.valid_to]))
        assert row[strategy.is_current] == (row[strategy.valid_to] is None)
    seen = set()
    for key, versions in keys.items():
        versions.sort(key=lambda version: version[0])
        for (begin, end), (following, _) in pairwise(versions):
            assert end is not None
            assert begin < end <= following
            assert strategy.close_missing or end == following
            seen.add("gap" if end < following else "adjacent")
        end = versions[-1][1]
        assert end is None or (strategy.close_missing and versions[-1][0] < end)
        seen |= {"open" if end is None else "closed", *(["NULL key"] if None in key else [])}
    return seen
