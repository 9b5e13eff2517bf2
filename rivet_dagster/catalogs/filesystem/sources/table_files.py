"""The files of a source's table, which is a file, a directory or a glob, and their fingerprint."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation, local_path
from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, is_link, looking, names_in, status
from rivet_dagster.catalogs.filesystem.sources.formats import chosen_format, format_of, reader_options
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.relations import Files

_GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_PATTERNS = 1000


@dataclass(frozen=True)
class TableFiles:
    """The files and folders that make up a table, their format, and the name of the first file as an example."""

    format: str
    paths: tuple[Path, ...]
    example: str


def find(location: CatalogLocation, table: str, default_format: str, options: Mapping[str, Any]) -> TableFiles:
    """Return the current files of ``table``. Raises RVT-403 if there are none that an engine would read."""
    with looking(location.shown(location.join(table))):
        return _find(location, table, default_format, options)


def _find(location: CatalogLocation, table: str, default_format: str, options: Mapping[str, Any]) -> TableFiles:
    path = Path(location.join(table))
    paths = roots(location, table, default_format)
    if not paths and is_glob(table):
        raise RivetError("RVT-403", f"no file matches {location.shown(path)}")
    if not paths:
        raise RivetError("RVT-403", f"{location.shown(path)} does not exist{hint(location, path)}")
    first = next(data_files(paths), None)
    if first is None and "schema" not in {key.lower() for key in options}:
        # Names that begin with _ or . are ignored, as they are by Spark.
        raise RivetError("RVT-403", f"{location.shown(path)} holds no data file, and no `schema` is given")
    format = chosen_format(options) or format_of(table) or (format_of(first.name) if first else None) or default_format
    return TableFiles(format, paths, first.name if first else table)


def roots(location: CatalogLocation, table: str, default_format: str) -> tuple[Path, ...]:
    """Return the files and folders that ``table`` names now."""
    path = Path(location.join(table))
    paths = existing(path) or existing(Path(f"{path}.{default_format}"))
    if not paths and is_glob(table):
        paths = tuple(root for match in matches(location, table) for root in existing(match))
    return paths


def relation(table: TableFiles, options: Mapping[str, Any]) -> Files:
    """Return the relation by which an engine reads the files."""
    return Files(
        table.format,
        tuple(str(path) for path in table.paths),
        reader_options(table.format, table.example, options),
    )


def fingerprint(table: TableFiles, location: CatalogLocation) -> str:
    """Return a short text that changes when a file is added, removed or written again.

    Files in folders that the engine ignores are included: a needless change is harmless, a missed one is not.
    """
    digest = hashlib.sha256()
    with looking(location.shown(table.paths[0])):
        for name, file in sorted((os.path.relpath(file, location.folder), file) for file in data_files(table.paths)):
            now = status(file)
            if now is not None:  # else it was removed after it was listed, or is a broken link
                digest.update(f"{name}\0{now.st_size}\0{now.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def data_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all files at and below ``paths``, in order, but those that engines ignore: names with ``.`` or ``_``.

    Raises OSError if a folder exists and cannot be listed.
    """
    seen = set()
    for path in paths:
        if not is_folder(path):
            if not is_ignored(path.name):
                yield path
            continue
        for directory, folders, files in os.walk(path, onerror=_unless_gone, followlinks=True):
            identity = status(Path(directory))
            folders[:] = sorted(name for name in folders if not is_ignored(name))
            if identity is None or (identity.st_dev, identity.st_ino) in seen:  # a link to a parent folder
                folders.clear()
                continue
            seen.add((identity.st_dev, identity.st_ino))
            yield from (Path(directory, name) for name in sorted(files) if not is_ignored(name))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def is_ignored(name: str) -> bool:
    # A partition folder may be named after a column that begins with an underscore.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def existing(path: Path) -> tuple[Path, ...]:
    """Return ``path`` if it exists; a link to a folder, such as a published table, is resolved.

    A query that is planned on the folder itself can still be read after the link is switched. A link to a file is not
    resolved, since the extension of its own name says how the file is compressed.
    """
    if not exists(path):
        return ()
    return (path.resolve(strict=True) if is_link(path) and is_folder(path) else path,)


def is_glob(table: str) -> bool:
    """Return whether ``table`` is a pattern.

    >>> is_glob("days/*.csv"), is_glob("days")
    (True, False)
    """
    return _GLOB.search(table) is not None


def fixed_folder(location: CatalogLocation, table: str) -> Path:
    """Return the deepest folder that contains all matches of the glob ``table``, at any depth."""
    parts = takewhile(lambda part: not is_glob(part), local_path(table).parts)
    return location.folder.joinpath(*parts)


def matches(location: CatalogLocation, table: str, all_parts: bool = False) -> tuple[Path, ...]:
    """Return the matches of the glob ``table``, in order, but those with names that engines ignore.

    With ``all_parts``, matches inside of folders with such names are left out, too.
    """
    paths = {
        match
        for pattern in without_braces(str(local_path(table)))
        for match in _expanded(*_start(location.folder, Path(pattern)))
    }
    fixed = len(fixed_folder(location, table).parts) if all_parts else -1
    return tuple(path for path in sorted(paths) if not any(is_ignored(part) for part in path.parts[fixed:]))


def _start(folder: Path, pattern: Path) -> tuple[Path, tuple[str, ...]]:
    return (Path(pattern.anchor), pattern.parts[1:]) if pattern.is_absolute() else (folder, pattern.parts)


def _expanded(start: Path, parts: tuple[str, ...]) -> list[Path]:
    """Return the matches of a glob. Unlike ``glob.glob``, raises OSError for folders that cannot be listed."""
    paths = [start]
    for part in parts:
        if glob.has_magic(part):
            paths = [
                folder / name
                for folder in paths
                for name in fnmatch.filter(names_in(folder), part)
                if part.startswith(".") or not name.startswith(".")
            ]
        else:
            paths = [path for folder in paths if exists(path := folder / part)]
    return paths


def without_braces(pattern: str) -> list[str]:
    """Return the patterns that ``{a,b}`` expands to, in order. Raises RVT-204 if they are more than a thousand.

    >>> without_braces("{2023,2024}/*.csv")
    ['2023/*.csv', '2024/*.csv']
    """
    patterns: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        match = _BRACES.search(text)
        choices = match[1].split(",") if match else []
        if len(patterns) + len(waiting) + len(choices) > _MOST_PATTERNS:
            message = f"the {{a,b}} of `table` stand for more than {_MOST_PATTERNS} patterns"
            raise RivetError("RVT-204", message, remediation="Name fewer, or use `*`.")
        if match:
            waiting += [text[: match.start()] + choice + text[match.end() :] for choice in reversed(choices)]
        else:
            patterns.append(text)
    return patterns


def hint(location: CatalogLocation, path: Path) -> str:
    """Return the end of a message about a path that does not exist: the nearest name, or the missing folder."""
    if not is_folder(path.parent):
        return "" if path.parent == path else f"; nor does the folder {location.shown(path.parent)}"
    return nearest(path.name, [name for name in names_in(path.parent) if not is_ignored(name)])
