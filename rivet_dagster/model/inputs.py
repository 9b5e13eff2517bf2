"""The positions of a version's inputs: what of each joint and source was read for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class LandedFile:
    """A file that a source is read from.

    One with the same path, seen from the catalog, size and time is the same file.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class ConsumedFiles:
    """The files of one landing zone that a version was made of.

    ``files`` were read for it, ``earlier`` are those that versions before it had read and that are still there.
    ``schema`` is that of the files, as the option ``schema`` takes it; None where the source declares its own.
    """

    files: tuple[LandedFile, ...] = ()
    earlier: tuple[LandedFile, ...] = ()
    schema: str | None = None

    @property
    def known(self) -> frozenset[LandedFile]:
        """All files that must not be read again."""
        return frozenset((*self.files, *self.earlier))

    def __str__(self) -> str:
        return f"{len(self.files)} new file{'' if len(self.files) == 1 else 's'}"


@dataclass(frozen=True)
class FilesPosition:
    """The data of a source, told by the text that changes whenever it does."""

    data_version: str

    def __str__(self) -> str:
        return f"data {self.data_version}"


@dataclass(frozen=True)
class VersionPosition:
    """Published versions of a catalog's tables, by table; several where partitions have a table each."""

    catalog: str
    versions: Mapping[str, str]
    environment: str | None = None

    def __str__(self) -> str:
        names = list(self.versions.values())
        return f"version {names[0]}" if len(names) == 1 else f"{len(names)} versions"


@dataclass(frozen=True)
class SnapshotPosition:
    """A snapshot of a table, by the id that its format gives it."""

    catalog: str
    table: str
    snapshot: int

    def __str__(self) -> str:
        return f"snapshot {self.snapshot}"


@dataclass(frozen=True)
class UnknownPosition:
    """A source that cannot tell the state of its data without reading it."""

    def __str__(self) -> str:
        return "unknown"


Position = ConsumedFiles | FilesPosition | VersionPosition | SnapshotPosition | UnknownPosition
"""Where one input stood when it was read."""

Inputs = Mapping[str, Position]
"""The positions by the name of the joint or source."""
