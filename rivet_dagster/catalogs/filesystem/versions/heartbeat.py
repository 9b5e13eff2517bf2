"""The heartbeat of a version: the modification time of the file ``<version>.alive`` beside the version's folder.

The time is by the clock of the file system: the clocks of the machines that share it may differ.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from rivet_dagster.catalogs.filesystem.files.file_status import status
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.versions.heartbeat import Heartbeat


@dataclass(frozen=True)
class FileHeartbeat(Heartbeat):
    """The heartbeat of a version. The caller holds the table's lock for ``beat`` and ``extend``."""

    table: TableLayout
    version: str

    @property
    def path(self) -> str:
        """The path of the file."""
        return str(self.table.alive(self.version))

    @property
    def builds(self) -> str:
        """The version, as the subject of an error."""
        return f"the version {self.version} of '{self.table.name}'"

    def last(self) -> float | None:
        """Return when the file was last modified; None if there is none."""
        last = status(self.table.alive(self.version))
        return None if last is None else last.st_mtime

    def begin(self) -> None:
        """Send the first heartbeat, before the version's folder is made, which must not exist without one."""
        self.table.alive(self.version).touch()

    def write(self, time: float) -> None:
        """Set the modification time of the file."""
        self.begin()
        os.utime(self.path, (time, time))

    def end(self) -> None:
        """Remove the file: the version has been published or removed."""
        self.table.alive(self.version).unlink(missing_ok=True)

    def now(self) -> float:
        """Return the time by the clock of the table's file system."""
        return now(self.table)


def now(table: TableLayout) -> float:
    """Return the time by the clock of the table's file system. Raises OSError."""
    probe = table.home / f".clock-{secrets.token_hex(4)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
