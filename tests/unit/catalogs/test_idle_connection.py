"""A connection that was just used is used again, by one caller at a time, and closed when nobody needs it."""

import time

from rivet_dagster.catalogs.jdbc import database
from rivet_dagster.catalogs.jdbc.database import IdleConnection


class Recorded:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_it_is_taken_by_one_caller():
    idle, first, second = IdleConnection(), Recorded(), Recorded()
    assert idle.take() is None
    idle.keep(first)
    idle.keep(second)
    assert (first.closed, second.closed) == (False, True)
    assert idle.take() is first
    assert idle.take() is None
    idle.keep(first)
    assert idle.take() is first


def test_it_is_closed_if_nobody_takes_it(monkeypatch):
    monkeypatch.setattr(database, "IDLE_SECONDS", 0.05)
    idle, left, taken = IdleConnection(), Recorded(), Recorded()
    idle.keep(taken)
    assert idle.take() is taken
    idle.keep(left)
    deadline = time.monotonic() + 10
    while not left.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left.closed
    assert idle.take() is None
    assert not taken.closed
