"""Statistics of a version's data files, cached in a file beside the version; footers are read for new files only.

``<version>.files.json`` holds row count, min and max of each file by name, with the size and modification time by which
the file is recognized in later versions that share it. Versions of earlier releases have no such file.

Copy on write: the files of the base that a write cannot change are shared by the new version, not written again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import damage, is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footers import Footer, footer_of, parquet_files, together
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ColumnStatistics, Statistics

FileStamp = tuple[str, int, int]
"""A file's name, size and modification time, which together identify its content."""


def stamp_of(path: Path) -> FileStamp:
    """Return the stamp of a file. Raises RVT-407 if it does not exist any more."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise RivetError("RVT-407", f"the file {path}, which the engine wrote, has vanished") from error
    return (path.name, status.st_size, status.st_mtime_ns)


class Footers:
    """The footers of a table's files, each read at most once; ``cached`` are paths of files that hold some of them.

    Settled files are those of versions that are complete: durable, and changed by nobody. They are looked up once.
    """

    def __init__(self, *cached: Path) -> None:
        self._cached = list(cached)
        self._known: dict[FileStamp, Footer] = {}
        self._settled: dict[Path, FileStamp] = {}
        self._together: tuple[frozenset[FileStamp], Statistics] | None = None

    def settle(self, files: Iterable[Path]) -> None:
        """Look up ``files``, which are settled. Raises RVT-407."""
        self._settled |= {path: stamp_of(path) for path in files}

    @property
    def settled(self) -> Collection[Path]:
        """The paths of the settled files."""
        return self._settled.keys()

    def share(self, path: Path, folder: Path) -> None:
        """Put a settled file into another folder, too, where it is settled unless it had to be copied."""
        if share(path, folder):
            self._settled[folder / path.name] = self._settled[path]

    def stamp(self, path: Path) -> FileStamp:
        """Return the stamp of a file. Raises RVT-407."""
        return self._settled.get(path) or stamp_of(path)

    def of(self, path: Path) -> Footer:
        """Return the footer of a file. Raises RVT-407."""
        return self._of(path, self.stamp(path))

    def _of(self, path: Path, stamp: FileStamp) -> Footer:
        while self._cached:
            self._known |= _read(self._cached.pop())
        if stamp not in self._known:
            self._known[stamp] = footer_of(path)
        return self._known[stamp]

    def statistics(self, files: Iterable[Path]) -> Statistics:
        """Return the statistics of ``files``, at least one, taken together. Raises RVT-407."""
        stamps = {self.stamp(path): path for path in files}
        if self._together is None or self._together[0] != stamps.keys():
            parts = [self._of(path, stamp).statistics for stamp, path in stamps.items()]
            self._together = frozenset(stamps), together(parts)
        return self._together[1]

    def write(self, files: Iterable[Path], to: Path) -> None:
        """Write the footers of ``files`` to disk, in the form that ``cached`` files have. Raises OSError."""
        known = {stamp: self._of(path, stamp) for path in files for stamp in (self.stamp(path),)}
        with open(to, "w", encoding="utf-8") as file:
            file.write(json.dumps(_as_json(known), separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())


_REMEDY = "Remove it: the files themselves tell the same."


def _read(path: Path) -> dict[FileStamp, Footer]:
    """Return the footers in a cache file, none if it does not exist. Raises RVT-407 if it is damaged."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    with damage(path, _REMEDY):
        fields = json.loads(text)
        schemas = fields["schemas"]
        return {
            (name, file["size"], file["mtime_ns"]): _footer(file, schemas[file["schema"]])
            for name, file in fields["files"].items()
        }


def _footer(file: Mapping[str, Any], schema: Mapping[str, Any]) -> Footer:
    columns = tuple((name, type_) for name, type_ in schema["columns"])
    values = {
        name: ColumnStatistics(nulls, _value(least), _value(greatest))
        for name, (nulls, least, greatest) in file["values"].items()
    }
    return Footer(Statistics(int(file["rows"]), file["size"], columns, values), schema["spark"])


def _as_json(known: Mapping[FileStamp, Footer]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    files = {}
    for (name, size, mtime_ns), footer in known.items():
        schema = {"spark": footer.schema, "columns": footer.statistics.columns}
        if schema not in schemas:
            schemas.append(schema)
        files[name] = {
            "size": size,
            "mtime_ns": mtime_ns,
            "schema": schemas.index(schema),
            "rows": footer.statistics.rows,
            "values": {name: _plain(value) for name, value in footer.statistics.values.items()},
        }
    return {"schemas": schemas, "files": files}


def _plain(known: ColumnStatistics) -> list[Any]:
    """Return the statistics of one column as JSON; without min and max if ``_typed`` does not know their type."""
    try:
        return [known.nulls, _typed(known.min), _typed(known.max)]
    except TypeError:
        return [known.nulls, None, None]


_TYPES: dict[str, Any] = {
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
}


def _typed(value: Any) -> Any:
    """Return a min or max as JSON: the value itself, or its text by the name of its type.

    >>> _typed(3), _typed("eu"), _typed(date(2024, 1, 31)), _typed(Decimal("1.50"))
    (3, 'eu', {'date': '2024-01-31'}, {'decimal': '1.50'})
    """
    match value:
        case None | bool() | int() | str():
            return value
        case datetime() | date() | time():
            return {type(value).__name__: value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
    raise TypeError(value)


def _value(stored: Any) -> Any:
    """Return the min or max that ``_typed`` wrote.

    >>> _value({"date": "2024-01-31"}), _value(3)
    (datetime.date(2024, 1, 31), 3)
    """
    if not isinstance(stored, dict):
        return stored
    ((kind, text),) = stored.items()
    return _TYPES[kind](text)


def flatten(folder: Path) -> None:
    """Move the files of the subfolders that a split write has made up into the version's folder.

    Readers would take the subfolders for partition columns of the table.
    """
    parts = [path for path in map(folder.joinpath, names_in(folder)) if "=" in path.name and is_folder(path)]
    for number, part in enumerate(parts):
        for path in parquet_files(part):
            # A task uses one file name in all subfolders that it writes to.
            os.rename(path, folder / f"{path.stem}-{number:05}{path.suffix}")
        shutil.rmtree(part)


def share(path: Path, folder: Path) -> bool:
    """Put the file into another folder, too: as a hard link if the file system has them, else as a copy.

    Return whether it is a link; a copy is not durable yet.
    """
    try:
        os.link(path, folder / path.name)
    except FileExistsError:
        raise  # a copy would overwrite the existing file in all versions that share it
    except OSError:
        shutil.copy2(path, folder / path.name)
        return False
    return True


def keep_permissions(base: Path, folder: Path, files: Iterable[Path]) -> None:
    """Give a version's folder, and ``files`` of it, the permissions, and where possible the owner, of its base's."""
    _like(folder, base)
    example = next(iter(parquet_files(base)), None)
    if example is not None:
        for path in files:
            _like(path, example)


def _like(path: Path, example: Path) -> None:
    shutil.copymode(example, path)
    status = example.stat()
    with suppress(PermissionError):  # only the superuser can change the owner
        os.chown(path, status.st_uid, status.st_gid)


def prune_files(files: list[Path], affected: Affected, footers: Footers) -> tuple[list[Path], list[Path], int]:
    """Return the files that a write cannot change, those that it may change in part, and the row count of all files."""
    unchanged, mixed, rows = [], [], 0
    for path in files:
        statistics = footers.of(path).statistics
        rows += statistics.rows
        if not affected.may_change(statistics):
            unchanged.append(path)
        elif not affected.removes(statistics):
            mixed.append(path)
    return unchanged, mixed, rows
