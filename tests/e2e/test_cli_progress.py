"""A run's progress on the command line, with a terminal and without one."""

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.slow import TWO_STAGES, poll_often

from rivet_dagster.cli.main import main

FILES = {"joints/slow.sql": f"-- rivet:eager: true\n{TWO_STAGES}"}
TASKS = re.compile(r"slow: \d of \d stages, (\d+) of \d+ tasks \(\d+%\), \d+ s")


@pytest.fixture(autouse=True)
def _slow(monkeypatch):
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    poll_often(monkeypatch)


@contextmanager
def terminal_as_stderr(monkeypatch) -> Iterator[list[bytes]]:
    """Make stderr a terminal of 100 columns; the list gets the whole output after the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    sent: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(master, 4096):
                sent.append(data)
        except OSError:
            return  # the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(slave, "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            yield sent
    finally:
        reader.join()
        os.close(master)


def test_a_terminal_shows_a_bar_that_moves_and_goes(project, monkeypatch, capfd):
    with terminal_as_stderr(monkeypatch) as read:
        assert main(["-p", str(project(FILES).root), "run", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["success"]
    sent = b"".join(read).decode()
    drawn = [part for part in sent.split("\r") if TASKS.match(part)]
    assert len({TASKS.match(part)[1] for part in drawn}) > 2
    assert all(part.count("|") == 2 and len(part) <= 100 for part in drawn)
    assert "█" in drawn[-1] or "#" in drawn[-1]
    # Before the next line the bar is cleared, so that the line is complete.
    started, bars, ended = re.fullmatch(r"(.*?)\r\n(.*\r +\r)(slow: done)\r\n", sent, re.DOTALL).groups()
    assert (started, ended) == ("slow: running", "slow: done")
    assert "\n" not in bars


def test_other_outputs_get_plain_lines(project, monkeypatch, capfd):
    monkeypatch.setattr("rivet_dagster.execution.progress.FIRST_SECONDS", 0.3)
    assert main(["-p", str(project(FILES).root), "run", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["success"]
    lines = err.splitlines()
    progress_lines = [line for line in lines if TASKS.fullmatch(line)]
    assert 2 <= len(progress_lines) <= 6
    assert "\r" not in err
    assert (
        lines.index("slow: running")
        < lines.index(progress_lines[0])
        < lines.index(progress_lines[-1])
        < lines.index("slow: done")
    )
