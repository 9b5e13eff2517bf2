"""Signs of life of versions being built: one without any for a minute is nobody's any more, and may be swept.

A sign is the time of the file ``<version>.alive`` beside the version's folder, by the file system's own clock: the
machines that share it need not agree on theirs.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.catalogs.capabilities.sweeping import DEAD_AFTER
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.presence import exists, status
from rivet_dagster.errors import RivetError


def begin(table: TableLayout, version: str) -> None:
    """The first sign; it comes before the version's folder, which nobody must see without one."""
    table.alive(version).touch()


def beat(table: TableLayout, version: str, since: float) -> None:
    """One more sign, by whoever holds the table's lock and has waited for it ``since`` then.

    Raises RVT-406 where the last one was too old by then, or somebody has swept the version.
    """
    file = table.alive(version)
    last = status(file)
    if last is None:
        raise _dead(table, version, "has been swept away")
    # Looked at before it is renewed: no sign may make a version live that a sweep could have taken for dead.
    silent = since - last.st_mtime
    if silent > DEAD_AFTER:
        end(table, version)
        raise _dead(table, version, f"gave no sign of life for {silent:.0f} s")
    os.utime(file)


@contextmanager
def required(table: TableLayout, version: str) -> Iterator[None]:
    """Raise RVT-406 where the version is not being built any more, before the block or when something in it fails."""
    if not exists(table.alive(version)):
        raise _dead(table, version, "has been swept away")
    try:
        yield
    except (OSError, RivetError) as error:
        told = isinstance(error, RivetError) and error.code == "RVT-406"
        if not told and not exists(table.alive(version)):
            raise _dead(table, version, "has been swept away") from error
        raise


def _dead(table: TableLayout, version: str, why: str) -> RivetError:
    return RivetError("RVT-406", f"the version {version} of '{table.name}' {why}: it cannot be published")


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
    last = status(table.alive(version))
    return last is not None and now - last.st_mtime <= DEAD_AFTER
