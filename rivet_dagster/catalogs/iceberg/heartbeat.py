"""Heartbeats of runs: objects with a time, beside the metadata of the table that a run builds.

The clocks of the machines that write and judge them must agree to a few seconds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.sweeping import DEAD_AFTER
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


@dataclass(frozen=True)
class Heartbeat:
    """The heartbeat of the attempt ``key``, an object below ``location``, the table's own."""

    io: FileIO
    location: str
    key: str

    @property
    def path(self) -> str:
        """The URI of the object."""
        return f"{self.location.rstrip('/')}/metadata/{self.key}.heartbeat"

    def begin(self) -> None:
        """Write the first heartbeat."""
        with self.io.new_output(self.path).create(overwrite=True) as stream:
            stream.write(datetime.now(UTC).isoformat().encode())

    def beat(self) -> None:
        """Renew the time. Raises RVT-406 if the heartbeat has been removed, since the run was taken for dead."""
        if not self.io.new_input(self.path).exists():
            raise RivetError("RVT-406", f"the run that builds {self.key} was taken for dead, and has been swept")
        self.begin()

    def is_alive(self) -> bool:
        """Return whether the last heartbeat is younger than DEAD_AFTER seconds."""
        try:
            with self.io.new_input(self.path).open() as stream:
                last = datetime.fromisoformat(stream.read().decode())
        except (FileNotFoundError, ValueError):
            return False
        return (datetime.now(UTC) - last).total_seconds() < DEAD_AFTER

    def end(self) -> None:
        """Remove the object, if it exists."""
        with suppress(FileNotFoundError):
            self.io.delete(self.path)
