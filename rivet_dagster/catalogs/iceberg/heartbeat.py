"""Heartbeats of runs: objects with a time, beside the metadata of the table that a run builds.

The clocks of the machines that write and judge them must agree to a few seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.names import BRANCH
from rivet_dagster.catalogs.versions.heartbeat import Heartbeat

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_ENDING = ".heartbeat"


@dataclass(frozen=True)
class ObjectHeartbeat(Heartbeat):
    """The heartbeat of the attempt ``key``, an object below ``location``, the table's own."""

    io: FileIO
    location: str
    key: str

    @property
    def path(self) -> str:
        """The URI of the object."""
        return f"{self.location.rstrip('/')}/metadata/{self.key}{_ENDING}"

    @property
    def builds(self) -> str:
        """The version of the attempt, as the subject of an error."""
        return f"the version of the run {self.key}"

    def write(self, time: float) -> None:
        """Write the time to the object."""
        with self.io.new_output(self.path).create(overwrite=True) as stream:
            stream.write(datetime.fromtimestamp(time, UTC).isoformat().encode())

    def last(self) -> float | None:
        """Return the time in the object; of one without, whose writing has begun, when that was, or 1970 if unknown."""
        try:
            with self.io.new_input(self.path).open() as stream:
                text = stream.read().decode()
        except FileNotFoundError:
            return None
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            return self._changed()

    def _changed(self) -> float:
        """Return when the object was last changed, by the clock of the store; 0.0 if that is not known."""
        from pyiceberg.io.pyarrow import PyArrowFileIO

        if not isinstance(self.io, PyArrowFileIO):
            return 0.0
        scheme, netloc, path = self.io.parse_location(self.path, self.io.properties)
        changed: datetime | None = self.io.fs_by_scheme(scheme, netloc).get_file_info(path).mtime
        return changed.timestamp() if changed is not None else 0.0

    def now(self) -> float:
        """Return the time by the clock of this machine."""
        return time.time()

    def end(self) -> None:
        """Remove the object, if it exists, and the folders of a table that has not been made."""
        with suppress(FileNotFoundError):
            self.io.delete(self.path)
        remove_empty_folders(self.location)


def heartbeat_at(io: FileIO, path: str) -> ObjectHeartbeat:
    """Return the heartbeat whose object is at ``path``."""
    location, _, file = path.rpartition("/metadata/")
    return ObjectHeartbeat(io, location, file.removesuffix(_ENDING))


def heartbeats_of(io: FileIO, location: str) -> Iterator[ObjectHeartbeat]:
    """Yield all heartbeats beside the metadata of a table, whether anything is staged for them or not."""
    from pyarrow.fs import FileSelector
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(io, PyArrowFileIO):
        return
    scheme, netloc, path = io.parse_location(f"{location.rstrip('/')}/metadata", io.properties)
    listed = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, allow_not_found=True))
    for name in sorted(file.base_name for file in listed):
        if name.startswith(BRANCH) and name.endswith(_ENDING):
            yield ObjectHeartbeat(io, location, name.removesuffix(_ENDING))


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
