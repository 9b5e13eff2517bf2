"""The positions of a version's inputs: which data of each joint and source was read for it.

Landing zones: sources of which each run reads only the files that the reader has not consumed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.model import convert


@dataclass(frozen=True, order=True, slots=True)
class LandedFile:
    """A file of a source.

    ``path`` is relative to the catalog. A file with the same path, size and modification time is the same file.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class ConsumedFiles:
    """The files of one landing zone that a version has consumed.

    ``files`` were read for this version; ``earlier`` were read for versions before it and still exist. ``schema`` is
    the schema of the files, as the option ``schema`` takes it; None where the source declares its own.
    """

    files: tuple[LandedFile, ...] = ()
    earlier: tuple[LandedFile, ...] = ()
    schema: str | None = None

    @property
    def known(self) -> frozenset[LandedFile]:
        """All consumed files, which must not be read again."""
        return frozenset((*self.files, *self.earlier))

    def __str__(self) -> str:
        return f"{len(self.files)} new file{'' if len(self.files) == 1 else 's'}"


@dataclass(frozen=True)
class FilesPosition:
    """The state of a source's files, identified by a data version that changes whenever they do."""

    data_version: str

    def __str__(self) -> str:
        return f"data {self.data_version}"


@dataclass(frozen=True)
class VersionPosition:
    """Published versions of a catalog's tables, by table; several where each partition has a table of its own."""

    catalog: str
    versions: Mapping[str, str]
    environment: str | None = None

    def __str__(self) -> str:
        names = list(self.versions.values())
        return f"version {names[0]}" if len(names) == 1 else f"{len(names)} versions"


@dataclass(frozen=True)
class SnapshotPosition:
    """A snapshot of a table, by the id in its table format."""

    catalog: str
    table: str
    snapshot: int

    def __str__(self) -> str:
        return f"snapshot {self.snapshot}"


@dataclass(frozen=True)
class DatabasePosition:
    """A snapshot of a database at which a table was read, as the database names it.

    Rows that were changed at the time ``before`` or later were not read; None if all were.
    """

    catalog: str
    table: str
    snapshot: str
    before: str | None = None

    def __str__(self) -> str:
        return f"snapshot {self.snapshot}{f', changes before {self.before}' if self.before else ''}"


@dataclass(frozen=True)
class TargetPosition:
    """The version of a table downstream that rows were computed upon, by its watermark or its rows.

    ``versions`` are several where the rows were computed in several steps, upon others; an empty text stands for none,
    before the first one.
    """

    versions: tuple[str, ...]

    def __str__(self) -> str:
        return f"upon {', '.join(f'version {name}' if name else 'none' for name in self.versions)}"


@dataclass(frozen=True)
class UnknownPosition:
    """The unknown state of a source whose catalog cannot determine it without reading the data."""

    def __str__(self) -> str:
        return "unknown"


Position = (
    ConsumedFiles
    | FilesPosition
    | VersionPosition
    | SnapshotPosition
    | DatabasePosition
    | TargetPosition
    | UnknownPosition
)
"""The position of one input: its state when it was read."""

Inputs = Mapping[str, Position]
"""Positions by the name of the joint or source.

A version that was made from a stored joint which holds only new rows also has the consumed files and the target of
that joint, as ``joint/source`` and ``joint/target``.
"""


def passed_on(joint: str, inputs: Inputs) -> dict[str, Position]:
    """Return what the versions that are made from new rows of a ``joint`` record of these ``inputs`` of the rows.

    >>> sorted(passed_on("new", {"zone": ConsumedFiles(), "other": FilesPosition("5b"), "a/z": ConsumedFiles()}))
    ['a/z', 'new/zone']
    """
    of_rows = {
        name: position for name, position in inputs.items() if isinstance(position, ConsumedFiles | TargetPosition)
    }
    return {name if "/" in name else f"{joint}/{name}": position for name, position in of_rows.items()}


def combine_positions(one: Position | None, other: Position) -> Position:
    """Return the position of rows that were read in two ways, by which they are read again rather than lost."""
    match one, other:
        case ConsumedFiles(), ConsumedFiles():
            files = tuple(file for file in one.files if file in other.known)
            return ConsumedFiles(files, tuple(file for file in one.earlier if file in other.known), other.schema)
        case TargetPosition(), TargetPosition():
            return TargetPosition(tuple(sorted({*one.versions, *other.versions})))
    return other


LANDING_OPTIONS = ("landing", "archive")

_SELECTING = ("pathglobfilter", "modifiedbefore", "modifiedafter")
"""Reader options with which an engine would skip files, although these would count as consumed."""


@dataclass(frozen=True)
class Landing:
    """The options of a landing zone; with ``archive`` its files are moved away once every reader has consumed them."""

    archive: bool = False


def landing_options(options: Mapping[str, Any]) -> tuple[Landing | None, dict[str, Any]]:
    """Return the landing options of a source, None if it is no landing zone, and its other options. Raise ValueError.

    >>> landing_options({"landing": True, "sep": ";"})
    (Landing(archive=False), {'sep': ';'})
    """
    given = {key: _boolean(key, options[key]) for key in LANDING_OPTIONS if key in options}
    others = {key: value for key, value in options.items() if key not in LANDING_OPTIONS}
    return (Landing(given.get("archive", False)) if given.get("landing") else None), others


def wrong_landing(options: Mapping[str, Any], is_source: bool, limit: int | None) -> list[str]:
    """Return what is wrong with the options of a landing zone, as sentences. Raise ValueError."""
    given = [key for key in LANDING_OPTIONS if key in options]
    if not is_source:
        return [f"the option `{key}` belongs to a source" for key in given]
    landing, others = landing_options(options)
    if landing is None:
        return ["the option `archive` needs `landing: true`"] if options.get("archive") else []
    errors = []
    if limit is not None:
        errors.append("a landing zone has no `limit`: what it leaves out would never be read")
    selecting = [key for key in others if key.lower() in _SELECTING]
    return errors + [
        f"a landing zone has no `{key}`: files that it leaves out would count as read" for key in selecting
    ]


def _boolean(key: str, value: Any) -> bool:
    try:
        return convert.boolean(value)
    except ValueError as error:
        raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
