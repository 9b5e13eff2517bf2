"""Heartbeats of runs: objects with a time, beside the metadata of the table that a run builds.

The clocks of the machines that write and judge them must agree to a few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.upkeep import DEAD_AFTER
from rivet_dagster.catalogs.iceberg.names import BRANCH
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_ENDING = ".heartbeat"


@dataclass(frozen=True)
class Heartbeat:
    """The heartbeat of the attempt ``key``, an object below ``location``, the table's own."""

    io: FileIO
    location: str
    key: str

    @property
    def path(self) -> str:
        """The URI of the object."""
        return f"{self.location.rstrip('/')}/metadata/{self.key}{_ENDING}"

    def begin(self) -> None:
        """Write the first heartbeat."""
        self._write(datetime.now(UTC))

    def extend(self, seconds: float) -> None:
        """Have it last for ``seconds`` longer than a heartbeat does, and no shorter than it did."""
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        with suppress(FileNotFoundError):
            until = max(until, self._last() or until)
        self._write(until)

    def _write(self, time: datetime) -> None:
        with self.io.new_output(self.path).create(overwrite=True) as stream:
            stream.write(time.isoformat().encode())

    def beat(self) -> None:
        """Renew the time. Raises RVT-406 as ``require`` does."""
        self.require()
        self.begin()

    def require(self) -> None:
        """Raise RVT-406 if the heartbeat is old or has been removed: the run was taken for dead, or may have been."""
        if self.is_alive():
            return
        if not self.io.new_input(self.path).exists():
            raise RivetError("RVT-406", f"the run that builds {self.key} was taken for dead, and has been swept")
        raise RivetError("RVT-406", f"the run that builds {self.key} has sent no heartbeat for too long")

    def is_alive(self) -> bool:
        """Return whether the last heartbeat is younger than DEAD_AFTER seconds."""
        try:
            last = self._last()
        except FileNotFoundError:
            return False
        return last is not None and (datetime.now(UTC) - last).total_seconds() < DEAD_AFTER

    def _last(self) -> datetime | None:
        """Return the time of the last heartbeat; of a file without one, whose writing has begun, the time of that."""
        with self.io.new_input(self.path).open() as stream:
            text = stream.read().decode()
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return self._changed()

    def _changed(self) -> datetime | None:
        """Return when the object was last changed, by the clock of the store; None if that is not known."""
        from pyiceberg.io.pyarrow import PyArrowFileIO

        if not isinstance(self.io, PyArrowFileIO):
            return None
        scheme, netloc, path = self.io.parse_location(self.path, self.io.properties)
        changed: datetime | None = self.io.fs_by_scheme(scheme, netloc).get_file_info(path).mtime
        return changed

    def end(self) -> None:
        """Remove the object, if it exists, and the folders of a table that has not been made."""
        with suppress(FileNotFoundError):
            self.io.delete(self.path)
        remove_empty_folders(self.location)


def heartbeat_at(io: FileIO, path: str) -> Heartbeat:
    """Return the heartbeat whose object is at ``path``."""
    location, _, file = path.rpartition("/metadata/")
    return Heartbeat(io, location, file.removesuffix(_ENDING))


def heartbeats_of(io: FileIO, location: str) -> Iterator[Heartbeat]:
    """Yield all heartbeats beside the metadata of a table, whether anything is staged for them or not."""
    from pyarrow.fs import FileSelector
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(io, PyArrowFileIO):
        return
    scheme, netloc, path = io.parse_location(f"{location.rstrip('/')}/metadata", io.properties)
    listed = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, allow_not_found=True))
    for name in sorted(file.base_name for file in listed):
        if name.startswith(BRANCH) and name.endswith(_ENDING):
            yield Heartbeat(io, location, name.removesuffix(_ENDING))


def remove_empty_folders(location: str) -> None:
    """Remove the folders below the ``location`` of a table that has no metadata, as far as there are no files in it.

    Do nothing for other storage than a file system of this machine.
    """
    if not location.startswith(("file:", "/")):
        return
    folder = Path("/" + location.removeprefix("file:").lstrip("/"))
    metadata = folder / "metadata"
    with suppress(OSError):  # there are files in it
        if metadata.exists():
            metadata.rmdir()
        for path, _, _ in os.walk(folder, topdown=False):
            os.rmdir(path)
