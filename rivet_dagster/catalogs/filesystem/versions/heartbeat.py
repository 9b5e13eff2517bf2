"""Heartbeats of versions that are being built: a version without one for a minute may be swept.

The heartbeat is the modification time of the file ``<version>.alive`` beside the version's folder, by the clock of the
file system: the clocks of the machines that share it may differ.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.catalogs.capabilities.upkeep import DEAD_AFTER
from rivet_dagster.catalogs.filesystem.files.file_status import exists, status
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.errors import HeartbeatLost, RivetError


def begin(table: TableLayout, version: str) -> None:
    """Send the first heartbeat, before the version's folder is made, which must not exist without one."""
    table.alive(version).touch()


def beat(table: TableLayout, version: str, since: float) -> None:
    """Send a heartbeat. The caller holds the table's lock and began to wait for it at the time ``since``.

    Raises RVT-406 if the last heartbeat was too old at that time, or if the version has been swept.
    """
    file = table.alive(version)
    last = status(file)
    if last is None:
        raise _dead(table, version, "has been swept away")
    # Checked before it is renewed: no heartbeat may revive a version that a sweep could have taken for dead.
    silent = since - last.st_mtime
    if silent > DEAD_AFTER:
        end(table, version)
        raise _dead(table, version, f"gave no sign of life for {silent:.0f} s")
    os.utime(file)


@contextmanager
def require_heartbeat(table: TableLayout, version: str) -> Iterator[None]:
    """Raise RVT-406 if the version has been swept before the block, or by the time that the block fails."""
    if not exists(table.alive(version)):
        raise _dead(table, version, "has been swept away")
    try:
        yield
    except (OSError, RivetError) as error:
        if not isinstance(error, HeartbeatLost) and not exists(table.alive(version)):
            raise _dead(table, version, "has been swept away") from error
        raise


def _dead(table: TableLayout, version: str, why: str) -> RivetError:
    return RivetError("RVT-406", f"the version {version} of '{table.name}' {why}: it cannot be published")


def end(table: TableLayout, version: str) -> None:
    """Remove the heartbeat file: the version has been published or removed."""
    table.alive(version).unlink(missing_ok=True)


def now(table: TableLayout) -> float:
    """Return the time by the clock of the table's file system."""
    probe = table.home / f".clock-{secrets.token_hex(4)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def is_alive(table: TableLayout, version: str, now: float) -> bool:
    """Return whether a live run may still be building the version."""
    last = status(table.alive(version))
    return last is not None and now - last.st_mtime <= DEAD_AFTER
