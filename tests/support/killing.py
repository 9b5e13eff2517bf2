"""Processes that run a group on the stand-in engine and are killed at a chosen moment, by themselves or by a test."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rivet_dagster.execution.phases import PhaseClock
from rivet_dagster.model.external_assets import Part
from support.external_assets import keep_ids
from support.landing import read
from support.standin import run

# Forked from a process that has imported all of this, a run costs no more than its own work.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["__main__", __name__, "pandas", "rivet_dagster.catalogs.filesystem"])

_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.utime", "fcntl.flock")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def start(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run ``work``, a function of a module here, in a process and a process group of its own."""
    process = PROCESSES.Process(target=_in_its_own_group, args=(work, arguments), daemon=True)
    process.start()
    return process


def ended(process: BaseProcess) -> int | None:
    """How a process ended, None for one that had to be killed since it did not end within some minutes."""
    process.join(300)
    code = process.exitcode
    process.kill()
    process.join()
    return code


def _in_its_own_group(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.fsync = lambda descriptor: None  # a kill loses nothing of what was written, only a loss of power does
    work(*arguments)


def _die() -> None:
    os.killpg(0, signal.SIGKILL)


# What the processes do:


def announced_run(test: Connection, root: Path, ids: Sequence[int], violations: int) -> None:
    """A run that tells the test when it begins and when it has ended."""
    test.send("began")
    run(root, ids, violations)
    test.send("ended")


def run_killed_around_a_phase(root: Path, ids: Sequence[int], violations: int, phase: str, moment: str) -> None:
    """A run that dies ``before`` or ``after`` one of its phases."""
    count = PhaseClock.phase

    @contextmanager
    def killed(clock: PhaseClock, name: str) -> Iterator[None]:
        if (name, moment) == (phase, "before"):
            _die()
        with count(clock, name):
            yield
        if (name, moment) == (phase, "after"):
            _die()

    PhaseClock.phase = killed  # type: ignore[method-assign]
    run(root, ids, violations)


def run_killed_after_a_step(root: Path, ids: Sequence[int], module: str, function: str) -> None:
    """A run that dies when a function of a module returns."""
    home = importlib.import_module(module)
    step = getattr(home, function)

    def killed(*arguments: Any, **options: Any) -> None:
        step(*arguments, **options)
        _die()

    setattr(home, function, killed)
    run(root, ids)


def run_killed_within_the_manifest(root: Path, ids: Sequence[int]) -> None:
    """A run that dies when half of the manifest is on disk."""
    json = importlib.import_module("json")

    def half(fields: Any, file: Any, **options: Any) -> None:
        text = json.dumps(fields, **options)
        file.write(text[: len(text) // 2])
        file.flush()
        _die()

    json.dump = half
    run(root, ids)


def run_killed_before_a_change(test: Connection, root: Path, ids: Sequence[int], violations: int, at: int) -> None:
    """A run that dies just before its change number ``at`` of the file system; it names each before it makes it."""
    _die_before_a_change(test, at)
    run(root, ids, violations)


def read_killed_before_a_change(test: Connection, root: Path, table: str, identity: str, at: int) -> None:
    """A reader of a landing zone that dies so."""
    _die_before_a_change(test, at)
    read(root, table, identity)


def keeping_killed_so(test: Connection, root: Path, ids: Sequence[int], part: Part | None, at: int) -> None:
    """A plain asset's step that dies so."""
    _die_before_a_change(test, at)
    keep_ids(root, ids, part)


def _die_before_a_change(test: Connection, at: int) -> None:
    number = 0

    def step(name: str) -> None:
        nonlocal number
        test.send(name)
        if number == at:
            _die()
        number += 1

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES:
            step(f"{event} {arguments[0]}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _TO_WRITE:
            step(f"open {arguments[0]}")

    os.fsync = lambda descriptor: step("fsync")
    sys.addaudithook(hook)
