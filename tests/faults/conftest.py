"""Fixtures for runs in separate processes that are interrupted or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a Python process in a process group of its own, which ends with the test."""
    started: list[subprocess.Popen[str]] = []
    environ = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "RIVET_PROFILE")}

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "stderr").open("w"),
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 300
) -> None:
    """Wait until the condition holds; fail if the process ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"it ended with {process.returncode} too early"
        assert time.monotonic() < deadline, f"nothing within {seconds} s"
        time.sleep(0.05)
