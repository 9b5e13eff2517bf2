"""Signs of life of versions being built: one without any for a minute is nobody's any more, and may be swept.

A sign is the time of the file ``<version>.alive`` beside the version's folder, by the file system's own clock: the
machines that share it need not agree on theirs.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from rivet_dagster.catalogs.contract import DEAD_AFTER
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.errors import RivetError


def begin(table: TableLayout, version: str) -> None:
    """The first sign; it comes before the version's folder, which nobody must see without one."""
    table.alive(version).touch()


def beat(table: TableLayout, version: str) -> None:
    """One more sign. Raises RVT-406 where the last one is too old, or somebody has swept the version."""
    file = table.alive(version)
    try:
        last = file.stat().st_mtime
        os.utime(file)
        silent = file.stat().st_mtime - last
    except FileNotFoundError:
        silent = None
    if silent is None or silent > DEAD_AFTER:
        end(table, version)
        why = "has been swept away" if silent is None else f"gave no sign of life for {silent:.0f} s"
        raise RivetError("RVT-406", f"the version {version} of '{table.name}' {why}: it cannot be published")


def end(table: TableLayout, version: str) -> None:
    """No more signs: the version has been published, or is gone."""
    table.alive(version).unlink(missing_ok=True)


def now(table: TableLayout) -> float:
    """The time by the clock of the table's file system."""
    probe = table.home / f".clock-{secrets.token_hex(4)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def is_alive(table: TableLayout, version: str, now: float) -> bool:
    """Whether somebody may still be building the version."""
    with suppress(FileNotFoundError):
        return now - table.alive(version).stat().st_mtime <= DEAD_AFTER
    return False
