"""Processes that run a group on the stand-in engine and are killed at a certain moment, by themselves or by a test."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rivet_dagster.execution.progress import PhaseClock
from rivet_dagster.model.external_assets import Part
from support.error_tables import publish
from support.external_assets import store_ids
from support.landing import read
from support.standin import run
from support.tables import catalog
from support.torture import some

# A process forked after these imports needs no time for them.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["__main__", __name__, "pandas", "rivet_dagster.catalogs.filesystem", "support.iceberg_groups"]
)

_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.utime", "fcntl.flock")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def kill_places(changes: Sequence[str], few: int, begin: int = 0) -> Sequence[int]:
    """Return the numbers of the changes, from ``begin`` on, before which a process is killed: each at length.

    Else those that rename what others may see, the ones after them, and ``few`` others from the first to the last.

    >>> kill_places(["open a", "fsync", "os.rename a", "fsync", "fsync", "fsync", "os.remove b"], 2)
    [0, 2, 3, 6]
    """
    places = range(begin, len(changes))
    renames = [at for at in places if changes[at].startswith("os.rename") and "/_temporary/" not in changes[at]]
    near = {at for rename in renames for at in (rename, rename + 1) if at in places}
    return sorted({*some(places, few), *near})


def start(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run ``work``, a module-level function, in a process and process group of its own."""
    # The server that forks does not get this process's sys.path before it imports.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    process = PROCESSES.Process(target=_in_its_own_group, args=(work, arguments), daemon=True)
    process.start()
    return process


def ended(process: BaseProcess) -> int | None:
    """Return the exit code of a process, or None if it had to be killed after some minutes."""
    process.join(300)
    code = process.exitcode
    process.kill()
    process.join()
    return code


def _in_its_own_group(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    sys.dont_write_bytecode = True  # what is first imported here would else be a step that no later process takes
    os.fsync = lambda descriptor: None  # a kill loses nothing that was written, only a power failure does
    work(*arguments)


def _die() -> None:
    os.killpg(0, signal.SIGKILL)


# The functions that the processes run:


def announced_run(test: Connection, root: Path, ids: Sequence[int], violations: int) -> None:
    """Run, with a message to the test at the beginning and at the end."""
    test.send("began")
    run(root, ids, violations)
    test.send("ended")


def run_killed_around_a_phase(root: Path, ids: Sequence[int], violations: int, phase: str, moment: str) -> None:
    """Run, and die ``before`` or ``after`` one of the phases."""
    die_around_a_phase(phase, moment)
    run(root, ids, violations)


def die_around_a_phase(phase: str, moment: str) -> None:
    """Let this process die ``before`` or ``after`` one of the phases of its run."""
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


def run_killed_after_a_step(root: Path, ids: Sequence[int], module: str, function: str) -> None:
    """Run, and die when a function of a module returns."""
    home = importlib.import_module(module)
    step = getattr(home, function)

    def killed(*arguments: Any, **options: Any) -> None:
        step(*arguments, **options)
        _die()

    setattr(home, function, killed)
    run(root, ids)


def run_killed_within_the_manifest(root: Path, ids: Sequence[int]) -> None:
    """Run, and die when half of the manifest is on disk."""
    writing = importlib.import_module("rivet_dagster.catalogs.filesystem.writes.transaction")
    write = writing.write_manifest

    def half(written: Any, path: Path) -> None:
        write(written, path)
        os.truncate(path, path.stat().st_size // 2)
        _die()

    writing.write_manifest = half
    run(root, ids)


def run_killed_before_a_change(test: Connection, root: Path, ids: Sequence[int], violations: int, at: int) -> None:
    """Run, send the name of each file system change before it is made, and die just before number ``at``."""
    _die_before_a_change(test, at)
    run(root, ids, violations)


def read_killed_before_a_change(test: Connection, root: Path, table: str, identity: str, at: int) -> None:
    """Read a landing zone, and die just before change number ``at``."""
    _die_before_a_change(test, at)
    read(root, table, identity)


def store_killed_before_a_change(test: Connection, root: Path, ids: Sequence[int], part: Part | None, at: int) -> None:
    """Store a plain asset, and die just before change number ``at``."""
    _die_before_a_change(test, at)
    store_ids(root, ids, part)


def publish_killed_before_a_change(
    test: Connection, root: Path, ids: Sequence[int], errors: Sequence[str] | None, at: int
) -> None:
    """Publish a version with an error table, or without, and die just before change number ``at``."""
    _die_before_a_change(test, at)
    publish(catalog(root, "lake"), list(ids), errors)


def work_killed_before_a_change(test: Connection, work: Callable[[Path], None], root: Path, at: int) -> None:
    """Do ``work``, a module-level function, and die just before change number ``at``."""
    _die_before_a_change(test, at)
    work(root)


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
