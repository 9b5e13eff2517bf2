"""Concurrent readers and writers of one table: readers see one complete version, one of the writers publishes."""

import multiprocessing.connection
import os
import time
from pathlib import Path

import pytest
from support.killing import PROCESSES, ended, start
from support.readers import READERS, ROWS, TABLE, our_reader, read_repeatedly, staged, warehouse, write_repeatedly
from support.torture import examples

PUBLISHES, ROUNDS, MOST_ROUNDS = examples(8, 20), examples(8, 25), 1000


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("retained", [2, 100])
def test_readers_see_one_whole_version_while_others_are_published(tmp_path: Path, retained: int):
    lake = warehouse(tmp_path, retained)
    staged(lake, 0).commit("run")
    stop = PROCESSES.Event()
    pipes = [PROCESSES.Pipe(duplex=False) for _ in READERS]
    processes = [
        start(read_repeatedly, there, stop, read, tmp_path, retained)
        for read, (_, there) in zip(READERS, pipes, strict=True)
    ]
    here = [connection for connection, there in pipes if not there.close()]
    seen = [set(connection.recv()) for connection in here]  # each has begun
    number, deadline = 0, time.monotonic() + 300
    while number < PUBLISHES or min(map(len, seen)) < 5:
        number += 1
        staged(lake, number).commit("run")
        assert time.monotonic() < deadline, "a reader that sees nothing new"
        for versions, connection in zip(seen, here, strict=True):
            while connection.poll():
                versions.update(connection.recv())
    stop.set()
    for read, connection, process in zip(READERS, here, processes, strict=True):
        whole, other, missed = last(connection)
        assert ended(process) == 0
        assert other == [], read.__name__
        assert set(whole) <= set(range(number + 1))
        assert missed == 0 or read is not our_reader or retained < number


def last(connection: multiprocessing.connection.Connection) -> tuple:
    """Return the last message; the others are progress."""
    message = connection.recv()
    while not isinstance(message, tuple):
        message = connection.recv()
    return message


def test_of_two_processes_that_publish_at_once_one_succeeds_and_the_other_gets_an_error(tmp_path: Path):
    lake = warehouse(tmp_path, 2)
    staged(lake, -1).commit("run")
    writers, everybody, stop = PROCESSES.Barrier(2), PROCESSES.Barrier(3), PROCESSES.Event()
    numbers = [list(range(me, 2 * MOST_ROUNDS, 2)) for me in range(2)]
    pipes = [PROCESSES.Pipe(duplex=False) for _ in numbers]
    processes = [
        start(write_repeatedly, there, writers, everybody, stop, tmp_path, mine)
        for mine, (_, there) in zip(numbers, pipes, strict=True)
    ]
    here = [connection for connection, there in pipes if not there.close()]
    winners = set()
    for number in range(1, MOST_ROUNDS + 1):
        outcomes = [connection.recv() for connection in here]
        ((winner, version),) = [(number, outcome) for number, outcome, _ in outcomes if outcome != "RVT-405"]
        assert sorted(outcome for _, outcome, _ in outcomes) == sorted(["RVT-405", version])
        assert [table for _, _, table in outcomes] == [{winner: ROWS}, {winner: ROWS}]
        winners.add(winner % 2)
        if number >= ROUNDS and winners == {0, 1}:  # each of them, on a busy machine after some more
            stop.set()
        everybody.wait(300)
        if stop.is_set():
            break
    assert [ended(process) for process in processes] == [0, 0]
    assert winners == {0, 1}
    left = set(os.listdir(tmp_path / "warehouse/.rivet" / TABLE)) - {"lock", "publishers.jsonl"}
    assert len(left) == 6  # two versions, their manifests and file statistics
