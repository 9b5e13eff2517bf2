"""Histories over several runs: the batches of one key, and the resulting versions.

Times are hours; runs start at 100, 200 and so on. The rows of a batch are (at, price, note), where the price is tracked
and the note is not; the versions are (valid_from, valid_to, price, note, at). All cases of a plan share a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rivet_dagster.model.write_plan import History
from rivet_dagster.testing.plan_cases.case import Rows

COLUMNS = "id STRING, at TIMESTAMP, price INT, note STRING"

BatchRow = tuple[int, int | None, str | None]
Version = tuple[int, int | None, int | None, str | None, int]


@dataclass(frozen=True)
class HistoryCase:
    """The batches of the key ``name``, and the resulting versions.

    ``changed`` are the numbers of versions that the last run inserts and updates.
    """

    name: str
    runs: tuple[Sequence[BatchRow], ...]
    versions: Sequence[Version]
    changed: tuple[int, int]

    def batch(self, run: int) -> Rows:
        """Return the batch of a run as rows of ``COLUMNS``, without rows after the last run."""
        rows = self.runs[run] if run < len(self.runs) else []
        return [(self.name, hour(at), price, note) for at, price, note in rows]

    def after(self) -> Rows:
        """Return the versions as rows of the table: the columns of the batch, then valid_from, valid_to, is_current."""
        return [
            (self.name, hour(at), price, note, hour(begin), None if end is None else hour(end), end is None)
            for begin, end, price, note, at in self.versions
        ]


@dataclass(frozen=True)
class Histories:
    """The cases of one plan, each with a key of its own, so that one table holds all of them."""

    name: str
    plan: History
    cases: Sequence[HistoryCase]
    columns: str = COLUMNS

    @property
    def runs(self) -> int:
        """The number of runs of the longest case."""
        return max(len(case.runs) for case in self.cases)

    def batch(self, run: int) -> Rows:
        """Return the batch of a run, of all cases."""
        return [row for case in self.cases for row in case.batch(run)]


def hour(hours: int) -> datetime:
    """Return the timestamp of a time in hours."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


def started_at(run: int) -> datetime:
    """Return the start of a run; the first run is 0."""
    return hour(100 + 100 * run)


def _case(name: str, *steps: Sequence[BatchRow] | Sequence[Version], changed: tuple[int, int]) -> HistoryCase:
    """Return a case; ``steps`` are the batches, followed by the versions."""
    return HistoryCase(name, steps[:-1], steps[-1], changed)  # type: ignore[arg-type]


THREE: Sequence[BatchRow] = [(10, 1, "a"), (20, 2, "b"), (30, 3, "c")]
"""A batch that gives the versions [10, 20), [20, 30) and [30, ...)."""

_BY_TIME = (
    _case("the first row of a key is its current version", [(10, 1, "a")], [(10, None, 1, "a", 10)], changed=(1, 0)),
    _case("rows of several times are several versions", THREE,
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(3, 0)),
    _case("rows that are equal in what is tracked are one version", [(10, 1, "a"), (20, 1, "b"), (30, 1, "c")],
          [(10, None, 1, "c", 10)], changed=(1, 0)),
    _case("values that come back are a version again", [(10, 1, "a"), (20, 2, "b"), (30, 1, "c")],
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 1, "c", 30)], changed=(3, 0)),
    _case("equal rows count once", [(10, 1, "a"), (10, 1, "a")], [(10, None, 1, "a", 10)], changed=(1, 0)),
    _case("NULL is a value", [(10, None, "a"), (20, 1, None), (30, None, "c"), (40, None, "d")],
          [(10, 20, None, "a", 10), (20, 30, 1, None, 20), (30, None, None, "d", 30)], changed=(3, 0)),
    _case("the same batch again changes nothing", THREE, THREE,
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    _case("again nothing, where a note was overwritten before its version ended",
          [(10, 1, "a"), (15, 1, "b"), (20, 2, "c")], [(10, 1, "a"), (15, 1, "b"), (20, 2, "c")],
          [(10, 20, 1, "b", 10), (20, None, 2, "c", 20)], changed=(0, 0)),
    _case("a later row that differs ends the current version", [(10, 1, "a")], [(20, 2, "b")],
          [(10, 20, 1, "a", 10), (20, None, 2, "b", 20)], changed=(1, 1)),
    _case("a later row that differs in the note alone overwrites the current version, but for its time",
          [(10, 1, "a")], [(20, 1, "b")], [(10, None, 1, "b", 10)], changed=(0, 1)),
    _case("a later row that differs in its time alone changes nothing", [(10, 1, "a")], [(20, 1, "a")],
          [(10, None, 1, "a", 10)], changed=(0, 0)),
    _case("a note is overwritten and then its version ends", [(10, 1, "a")], [(20, 1, "b"), (30, 2, "c")],
          [(10, 30, 1, "b", 10), (30, None, 2, "c", 30)], changed=(1, 1)),
    _case("a late row before the first version ends where that begins", [(10, 1, "a")], [(5, 2, "b")],
          [(5, 10, 2, "b", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    _case("a late row before the first version is one of its own, be it equal", [(10, 1, "a")], [(5, 1, "a")],
          [(5, 10, 1, "a", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    _case("late rows before the first version that are equal are one, as the first of them says",
          [(10, 1, "a")], [(5, 2, "b"), (7, 2, "c")], [(5, 10, 2, "b", 5), (10, None, 1, "a", 10)], changed=(1, 0)),
    _case("a late row is spliced into the version of its time", THREE, [(15, 9, "x")],
          [(10, 15, 1, "a", 10), (15, 20, 9, "x", 15), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(1, 1)),
    _case("a late row that equals the next version moves no beginning", THREE, [(15, 2, "b")],
          [(10, 15, 1, "a", 10), (15, 20, 2, "b", 15), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(1, 1)),
    _case("a late row that equals the version of its time changes nothing, whatever its note", THREE, [(25, 2, "x")],
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    _case("two late rows cut a version twice", THREE, [(12, 8, "x"), (15, 9, "y")],
          [(10, 12, 1, "a", 10), (12, 15, 8, "x", 12), (15, 20, 9, "y", 15), (20, 30, 2, "b", 20),
           (30, None, 3, "c", 30)], changed=(2, 1)),
    _case("a late row, and one that returns to what was", THREE, [(12, 8, "x"), (15, 1, "y")],
          [(10, 12, 1, "a", 10), (12, 15, 8, "x", 12), (15, 20, 1, "y", 15), (20, 30, 2, "b", 20),
           (30, None, 3, "c", 30)], changed=(2, 1)),
    _case("late rows in every version, and a new one at the end", THREE,
          [(5, 7, "x"), (15, 8, "y"), (25, 9, "z"), (40, 3, "n"), (50, 4, "o")],
          [(5, 10, 7, "x", 5), (10, 15, 1, "a", 10), (15, 20, 8, "y", 15), (20, 25, 2, "b", 20), (25, 30, 9, "z", 25),
           (30, 50, 3, "n", 30), (50, None, 4, "o", 50)], changed=(4, 3)),
    _case("a row for the time at which the current version begins overwrites it", [(10, 1, "a")], [(10, 2, "b")],
          [(10, None, 2, "b", 10)], changed=(0, 1)),
    _case("and where its note alone differs, too", [(10, 1, "a")], [(10, 1, "b")], [(10, None, 1, "b", 10)],
          changed=(0, 1)),
    _case("a row for the time at which a version of the past begins overwrites that", THREE, [(20, 9, "x")],
          [(10, 20, 1, "a", 10), (20, 30, 9, "x", 20), (30, None, 3, "c", 30)], changed=(0, 1)),
    _case("but not where its note alone differs", THREE, [(20, 2, "x")],
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
    _case("a version of the past is overwritten, and cut", THREE, [(20, 9, "x"), (25, 2, "y")],
          [(10, 20, 1, "a", 10), (20, 25, 9, "x", 20), (25, 30, 2, "y", 25), (30, None, 3, "c", 30)], changed=(1, 1)),
    _case("a version is overwritten with the values that follow it, and both stay", THREE, [(10, 2, "b")],
          [(10, 20, 2, "b", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 1)),
    _case("the current version is overwritten, and its note by a later row", [(10, 1, "a")],
          [(10, 2, "b"), (15, 2, "c")], [(10, None, 2, "c", 10)], changed=(0, 1)),
    _case("a time to come begins its version now", [(10, 1, "a")], [(9000, 2, "b")],
          [(10, 9000, 1, "a", 10), (9000, None, 2, "b", 9000)], changed=(1, 1)),
    _case("an empty batch changes nothing", THREE, [],
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, None, 3, "c", 30)], changed=(0, 0)),
)  # fmt: skip

_CLOSING = (
    _case("a key that the batch lacks is closed at the run's start", THREE, [],
          [(10, 20, 1, "a", 10), (20, 30, 2, "b", 20), (30, 200, 3, "c", 30)], changed=(0, 1)),
    _case("a closed key stays as it is", [(10, 1, "a")], [], [], [(10, 200, 1, "a", 10)], changed=(0, 0)),
    _case("a key that the batch has stays open", [(10, 1, "a")], [(10, 1, "a")], [(10, None, 1, "a", 10)],
          changed=(0, 0)),
    _case("a version that begins with the run or later is not closed", [(200, 1, "a")], [], [(200, None, 1, "a", 200)],
          changed=(0, 0)),
    _case("a newer row opens a closed key again, be it equal", [(10, 1, "a")], [], [(250, 1, "a")],
          [(10, 200, 1, "a", 10), (250, None, 1, "a", 250)], changed=(1, 0)),
    _case("a row of the moment of closing opens the key again", [(10, 1, "a")], [], [(200, 1, "a")],
          [(10, 200, 1, "a", 10), (200, None, 1, "a", 200)], changed=(1, 0)),
    _case("the old row opens a closed key again, at the run's start", [(10, 1, "a")], [], [(10, 1, "a")],
          [(10, 200, 1, "a", 10), (300, None, 1, "a", 10)], changed=(1, 0)),
    _case("and the same batch once more changes nothing", [(10, 1, "a")], [], [(10, 1, "a")], [(10, 1, "a")],
          [(10, 200, 1, "a", 10), (300, None, 1, "a", 10)], changed=(0, 0)),
    _case("a row from before the closing splits the closed version, which still ends there",
          [(10, 1, "a")], [], [(50, 2, "b")],
          [(10, 50, 1, "a", 10), (50, 200, 2, "b", 50), (300, None, 2, "b", 50)], changed=(2, 1)),
    _case("a closed version's note is not overwritten", [(10, 1, "a")], [], [(50, 1, "b")],
          [(10, 200, 1, "a", 10), (300, None, 1, "b", 50)], changed=(1, 0)),
    _case("rows from before and after the closing", [(10, 1, "a")], [], [(50, 2, "b"), (250, 2, "c"), (260, 2, "d")],
          [(10, 50, 1, "a", 10), (50, 200, 2, "b", 50), (250, None, 2, "d", 250)], changed=(2, 1)),
    _case("a row of the gap ends where the next version begins", [(10, 1, "a")], [], [(10, 1, "a")],
          [(250, 1, "b"), (300, 1, "c")],
          [(10, 200, 1, "a", 10), (250, 300, 1, "b", 250), (300, None, 1, "c", 10)], changed=(1, 1)),
    _case("a key is closed twice", [(10, 1, "a")], [], [(10, 1, "a")], [],
          [(10, 200, 1, "a", 10), (300, 400, 1, "a", 10)], changed=(0, 1)),
)  # fmt: skip

_BY_RUN = (
    _case("a row takes effect when the run begins", [(10, 1, "a")], [(100, None, 1, "a", 10)], changed=(1, 0)),
    _case("a change ends the version when the run begins", [(10, 1, "a")], [(5, 2, "b")],
          [(100, 200, 1, "a", 10), (200, None, 2, "b", 5)], changed=(1, 1)),
    _case("what is not tracked is overwritten", [(10, 1, "a")], [(20, 1, "b")], [(100, None, 1, "b", 20)],
          changed=(0, 1)),
    _case("the same row again changes nothing", [(10, 1, "a")], [(10, 1, "a")], [(100, None, 1, "a", 10)],
          changed=(0, 0)),
    _case("a key that the batch lacks stays open", [(10, 1, "a")], [], [(100, None, 1, "a", 10)], changed=(0, 0)),
)  # fmt: skip

BY_TIME = Histories("by time", History(keys=("id",), tracked=("price",), effective_at="at"), _BY_TIME)
CLOSING = Histories("closing", replace(BY_TIME.plan, close_missing=True), _CLOSING)
BY_RUN = Histories("by run", replace(BY_TIME.plan, effective_at=None), _BY_RUN)

HISTORIES = (BY_TIME, CLOSING, BY_RUN)
