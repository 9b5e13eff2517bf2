"""The records of a table's versions: a manifest and a heartbeat beside each, and who published those that
others have replaced.

``publishers.jsonl`` beside the versions has a line for each that was replaced, in the order of their publication, so
that a retry of a run finds its version. It is added once another version is published, before the version can expire,
so that at any time either the version or its line exists. Lines of versions that have expired and were published more
than 30 days ago are removed from time to time: nobody retries a run after so long. Earlier releases added a line when a
version expired.

The heartbeat is the modification time of the file ``<version>.alive``, by the clock of the file system: the clocks of
the machines that share it may differ.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path

from rivet_dagster.catalogs.capabilities.upkeep import REMEMBERED
from rivet_dagster.catalogs.filesystem.files.file_status import damage, names_in, status
from rivet_dagster.catalogs.filesystem.versions.layout import EXPIRED, MANIFEST, TableLayout, versions_with
from rivet_dagster.catalogs.versions.facts import is_by
from rivet_dagster.catalogs.versions.heartbeat import Heartbeat
from rivet_dagster.catalogs.versions.manifest import LANDED, Manifest, manifest_from, summary
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file

_REMEDY = (
    "Bring it back from a backup. Or remove it: its version is then read off the data, older ones are not known any "
    "more, and landing zones are read from the start."
)


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write it to disk durably."""
    with open(path, "w", encoding="utf-8") as file:
        # A line for each key: with `indent`, Python's slow encoder would write a hundred thousand landed files.
        lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in manifest.as_json().items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
        file.flush()
        os.fsync(file.fileno())


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest in ``path``, None without one. Raises RVT-407 if it is damaged or of a newer release."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    with damage(path, _REMEDY):
        return _parsed(text, path)


@lru_cache(4)  # a run reads the one of the base some ten times
def _parsed(text: str, path: Path) -> Manifest:
    fields = json.loads(text)
    newer = sorted(fields.keys() - {field.name for field in dataclasses.fields(Manifest)} - {LANDED})
    if newer:
        message = f"{path} is a newer release's: this one does not know {', '.join(newer)}"
        raise RivetError("RVT-407", message, remediation="Update rivet_dagster here.")
    return manifest_from(fields)


_VERSION_OF_LINE = re.compile(rb'"version": "([^"\n]+)".*"\}\n')
"""The version of a whole line: that of a writer who was killed has no end, and no version."""


@dataclass(frozen=True)
class Recorded:
    """The content of the record."""

    content: bytes

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The recorded versions, the oldest first. The lines are not parsed, of which there may be many thousands."""
        return tuple(dict.fromkeys(version.decode() for version in _VERSION_OF_LINE.findall(self.content)))

    def find(self, identity: str) -> Manifest | None:
        """Return the manifest, without columns, of the version that ``identity`` published."""
        written = json.dumps(identity).encode()
        for line in self.content.splitlines() if written in self.content else ():
            manifest = _read_line(line) if written in line else None
            if manifest is not None and is_by(manifest, identity):
                return replace(manifest, identity=identity)
        return None


def read_publishers(table: TableLayout) -> Recorded:
    """Return the record. Raises OSError."""
    path = str(table.publishers)
    try:
        with open(path, "rb") as file:  # a network file system looks up the status of a file that is opened anew
            found = os.fstat(file.fileno())
        return _recorded_then(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    except FileNotFoundError:
        return Recorded(b"")


@lru_cache(4)  # a run reads that of its table three times, and adds one line
def _recorded_then(path: str, _: tuple[int, ...]) -> Recorded:
    with open(path, "rb") as file:
        return Recorded(file.read())


def remember_publishers(table: TableLayout, manifests: Iterable[Manifest]) -> None:
    """Add the publishers of these versions of ``table``, durably; the caller holds its lock. Raises OSError."""
    lines = [f"{json.dumps(summary(manifest))}\n".encode() for manifest in manifests]
    if not lines:
        return
    with open(table.publishers, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a process was killed while it added a line
                lines.insert(0, b"\n")
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        oldest = _read_line(file.readline())
    now = datetime.now(UTC)
    if oldest is None or (
        oldest.published_at < _moment(now - 2 * REMEMBERED) and oldest.version not in _retained(table)
    ):
        _forget_before(table, _moment(now - REMEMBERED))


def forget_publishers(table: TableLayout) -> None:
    """Remove the record of a table that is not published any more. Raises OSError."""
    table.publishers.unlink(missing_ok=True)


def _forget_before(table: TableLayout, oldest: str) -> None:
    retained, lines = _retained(table), read_publishers(table).content.splitlines(keepends=True)
    manifests = [(line, manifest) for line in lines if (manifest := _read_line(line))]
    lines = [line for line, record in manifests if record.published_at >= oldest or record.version in retained]
    replace_file(table.publishers, b"".join(lines), table.publishers.with_suffix(".new"))


def _retained(table: TableLayout) -> set[str]:
    names = names_in(table.home)
    return versions_with(names, MANIFEST) - versions_with(names, EXPIRED)


def _read_line(line: bytes) -> Manifest | None:
    """Return None for a line whose writer was killed: its version still exists, or another line has it."""
    try:
        return manifest_from(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _moment(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


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
