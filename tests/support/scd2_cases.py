"""Cases of scd2 by name: batches of one key, and the expected history, written by hand.

Times are hours; runs start at 100, 200 and so on. A batch's rows are (at, price, note), where the price is tracked and
the note is not; the history's are (valid_from, valid_to, price, note, at).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from support.scd2_model import Row, Scd2
from support.scd2_runs import Outcome, Runs

BatchRow = tuple[int, Any, Any]
HistoryRow = tuple[int, int | None, Any, Any, int]


def hour(hours: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


def started_at(run: int) -> datetime:
    return hour(100 + 100 * run)


COLUMNS = ("id", "at", "price", "note")
TYPES = {"id": "STRING", "at": "TIMESTAMP", "price": "INT", "note": "STRING"}
OPEN = Scd2(COLUMNS, ("id",), track_columns=("price",), effective_at="at")
CLOSING = Scd2(COLUMNS, ("id",), track_columns=("price",), effective_at="at", close_missing=True)


@dataclass(frozen=True)
class Case:
    name: str
    runs: tuple[list[BatchRow], ...]
    history: list[HistoryRow]
    changed: tuple[int, int]
    """The numbers of versions that the last run adds and changes."""

    def batch(self, run: int) -> list[Row]:
        """Return the rows of a run; the name of the case is the key."""
        rows = self.runs[run] if run < len(self.runs) else []
        return [{"id": self.name, "at": hour(at), "price": price, "note": note} for at, price, note in rows]

    def expected(self) -> list[Row]:
        return [
            {
                "id": self.name, "at": hour(at), "price": price, "note": note, "valid_from": hour(begin),
                "valid_to": None if end is None else hour(end), "is_current": end is None,
            }
            for begin, end, price, note, at in self.history
        ]  # fmt: skip


def played(runs: Runs, cases: Sequence[Case]) -> list[Outcome]:
    """Run all cases, each with a key of its own, and return the result of each run."""
    outcomes: list[Outcome] = []
    for run in range(max(len(case.runs) for case in cases)):
        history = outcomes[-1].rows if outcomes else []
        batch = [row for case in cases for row in case.batch(run)]
        outcomes.append(runs.run(history, batch, started_at(run)))
    return outcomes


def of_case(case: Case, outcomes: Sequence[Outcome]) -> Outcome:
    """Return the history of a case after the last run."""
    last = outcomes[len(case.runs) - 1]
    rows, inserted, updated = (
        sorted((row for row in rows if row["id"] == case.name), key=lambda row: row["valid_from"])
        for rows in (last.rows, last.inserted, last.updated)
    )
    return Outcome(rows, inserted, updated)


def case(name: str, *steps: Any, changed: tuple[int, int]) -> Case:
    """Return the batches, followed by the history."""
    return Case(name, tuple(steps[:-1]), steps[-1], changed)


HISTORY = [(10, 1, "a"), (20, 2, "b"), (30, 3, "c")]
"""A batch that gives the versions [10, 20), [20, 30) and [30, ...)."""

CASES_OPEN = [
    case("the first row of a key is its current version", [(10, 1, "a")], [(10, None, 1, "a", 10)], changed=(1, 0)),
    case("rows of several times are several versions", HISTORY,
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(3, 0)),
    case("rows that are equal in what is tracked are one version", [(10, 1, "a"), (20, 1, "b"), (30, 1, "c")],
         [(10, None, 1, "c", 10)], changed=(1, 0)),
    case("values that come back are a version again", [(10, 1, "a"), (20, 2, "b"), (30, 1, "c")],
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 1, "c", 30)], changed=(3, 0)),
    case("equal rows count once", [(10, 1, "a"), (10, 1, "a")], [(10, None, 1, "a", 10)], changed=(1, 0)),
    case("NULL is a value", [(10, None, "a"), (20, 1, None), (30, None, "c"), (40, None, "d")],
         [(10, 20, None, "a", 10), (20, 30, 1, None, 20), (30, None, None, "d", 30)], changed=(3, 0)),
    case("the same batch again changes nothing", HISTORY, HISTORY,
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    case("again nothing, where a note was overwritten before its version ended",
         [(10, 1, "a"), (15, 1, "b"), (20, 2, "c")], [(10, 1, "a"), (15, 1, "b"), (20, 2, "c")],
         [(10, 20, 1, "b", 10), (20, None, 2, "c", 20)], changed=(0, 0)),
    case("a later row that differs ends the current version", [(10, 1, "a")], [(20, 2, "b")],
         [(10, 20, 1, "a", 10), (20, None, 2, "b", 20)], changed=(1, 1)),
    case("a later row that differs in the note alone overwrites the current version, but for its time",
         [(10, 1, "a")], [(20, 1, "b")], [(10, None, 1, "b", 10)], changed=(0, 1)),
    case("a later row that differs in its time alone changes nothing", [(10, 1, "a")], [(20, 1, "a")],
         [(10, None, 1, "a", 10)], changed=(0, 0)),
    case("a note is overwritten and then its version ends", [(10, 1, "a")], [(20, 1, "b"), (30, 2, "c")],
         [(10, 30, 1, "b", 10), (30, None, 2, "c", 30)], changed=(1, 1)),
    case("a late row before the first version ends where that begins", [(10, 1, "a")], [(5, 2, "b")],
         [(5, 10, 2, "b", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    case("a late row before the first version is one of its own, be it equal", [(10, 1, "a")], [(5, 1, "a")],
         [(5, 10, 1, "a", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    case("late rows before the first version that are equal are one, as the first of them says",
         [(10, 1, "a")], [(5, 2, "b"), (7, 2, "c")], [(5, 10, 2, "b", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    case("a late row is spliced into the version of its time", HISTORY, [(15, 9, "x")],
         [(10, 15, 1, "a", 10), (15, 20, 9, "x", 15), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(1, 1)),
    case("a late row that equals the next version moves no beginning", HISTORY, [(15, 2, "b")],
         [(10, 15, 1, "a", 10), (15, 20, 2, "b", 15), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(1, 1)),
    case("a late row that equals the version of its time changes nothing, whatever its note", HISTORY, [(25, 2, "x")],
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    case("two late rows cut a version twice", HISTORY, [(12, 8, "x"), (15, 9, "y")],
         [(10, 12, 1, "a", 10), (12, 15, 8, "x", 12), (15, 20, 9, "y", 15), (20, 30, 2, "b", 20),
          (30, None, 3, "c", 30)], changed=(2, 1)),
    case("a late row, and one that returns to what was", HISTORY, [(12, 8, "x"), (15, 1, "y")],
         [(10, 12, 1, "a", 10), (12, 15, 8, "x", 12), (15, 20, 1, "y", 15), (20, 30, 2, "b", 20),
          (30, None, 3, "c", 30)], changed=(2, 1)),
    case("late rows in every version, and a new one at the end", HISTORY,
         [(5, 7, "x"), (15, 8, "y"), (25, 9, "z"), (40, 3, "n"), (50, 4, "o")],
         [(5, 10, 7, "x", 5), (10, 15, 1, "a", 10), (15, 20, 8, "y", 15), (20, 25, 2, "b", 20), (25, 30, 9, "z", 25),
          (30, 50, 3, "n", 30), (50, None, 4, "o", 50)], changed=(4, 3)),
    case("a row for the time at which the current version begins overwrites it", [(10, 1, "a")], [(10, 2, "b")],
         [(10, None, 2, "b", 10)], changed=(0, 1)),
    case("and where its note alone differs, too", [(10, 1, "a")], [(10, 1, "b")], [(10, None, 1, "b", 10)],
         changed=(0, 1)),
    case("a row for the time at which a version of the past begins overwrites that", HISTORY, [(20, 9, "x")],
         [(10, 20, 1, "a", 10), (20, 30, 9, "x", 20), (30, None, 3, "c", 30)], changed=(0, 1)),
    case("but not where its note alone differs", HISTORY, [(20, 2, "x")],
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    case("a version of the past is overwritten, and cut", HISTORY, [(20, 9, "x"), (25, 2, "y")],
         [(10, 20, 1, "a", 10), (20, 25, 9, "x", 20), (25, 30, 2, "y", 25), (30, None, 3, "c", 30)], changed=(1, 1)),
    case("a version is overwritten with the values that follow it, and both stay", HISTORY, [(10, 2, "b")],
         [(10, 20, 2, "b", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 1)),
    case("the current version is overwritten, and its note by a later row", [(10, 1, "a")],
         [(10, 2, "b"), (15, 2, "c")], [(10, None, 2, "c", 10)], changed=(0, 1)),
    case("a time to come begins its version now", [(10, 1, "a")], [(9000, 2, "b")],
         [(10, 9000, 1, "a", 10), (9000, None, 2, "b", 9000)], changed=(1, 1)),
    case("an empty batch changes nothing", HISTORY, [],
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
]  # fmt: skip

CASES_CLOSING = [
    case("a key that the batch lacks is closed at the run's start", HISTORY, [],
         [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, 200, 3, "c", 30)], changed=(0, 1)),
    case("a closed key stays as it is", [(10, 1, "a")], [], [], [(10, 200, 1, "a", 10)], changed=(0, 0)),
    case("a key that the batch has stays open", [(10, 1, "a")], [(10, 1, "a")], [(10, None, 1, "a", 10)],
         changed=(0, 0)),
    case("a version that begins with the run or later is not closed", [(200, 1, "a")], [], [(200, None, 1, "a", 200)],
         changed=(0, 0)),
    case("a newer row opens a closed key again, be it equal", [(10, 1, "a")], [], [(250, 1, "a")],
         [(10, 200, 1, "a", 10), (250, None, 1, "a", 250)], changed=(1, 0)),
    case("a row of the moment of closing opens the key again", [(10, 1, "a")], [], [(200, 1, "a")],
         [(10, 200, 1, "a", 10), (200, None, 1, "a", 200)], changed=(1, 0)),
    case("the old row opens a closed key again, at the run's start", [(10, 1, "a")], [], [(10, 1, "a")],
         [(10, 200, 1, "a", 10), (300, None, 1, "a", 10)], changed=(1, 0)),
    case("and the same batch once more changes nothing", [(10, 1, "a")], [], [(10, 1, "a")], [(10, 1, "a")],
         [(10, 200, 1, "a", 10), (300, None, 1, "a", 10)], changed=(0, 0)),
    case("a row from before the closing splits the closed version, which still ends there",
         [(10, 1, "a")], [], [(50, 2, "b")],
         [(10, 50, 1, "a", 10), (50, 200, 2, "b", 50), (300, None, 2, "b", 50)], changed=(2, 1)),
    case("a closed version's note is not overwritten", [(10, 1, "a")], [], [(50, 1, "b")],
         [(10, 200, 1, "a", 10), (300, None, 1, "b", 50)], changed=(1, 0)),
    case("rows from before and after the closing", [(10, 1, "a")], [], [(50, 2, "b"), (250, 2, "c"), (260, 2, "d")],
         [(10, 50, 1, "a", 10), (50, 200, 2, "b", 50), (250, None, 2, "d", 250)], changed=(2, 1)),
    case("a row of the gap ends where the next version begins", [(10, 1, "a")], [], [(10, 1, "a")],
         [(250, 1, "b"), (300, 1, "c")],
         [(10, 200, 1, "a", 10), (250, 300, 1, "b", 250), (300, None, 1, "c", 10)], changed=(1, 1)),
    case("a key is closed twice", [(10, 1, "a")], [], [(10, 1, "a")], [],
         [(10, 200, 1, "a", 10), (300, 400, 1, "a", 10)], changed=(0, 1)),
]  # fmt: skip
