"""A source's table: a file, a directory or a glob, found where it is and fingerprinted without being read."""

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

from rivet_dagster.catalogs.filesystem.formats import chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.place import Place, local_path
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, is_link, looking, names_in, status
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.relations import Files

_GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_PATTERNS = 1000


@dataclass(frozen=True)
class Found:
    """The files and folders that make up a table, its format, and the name of its first file as an example."""

    format: str
    paths: tuple[Path, ...]
    example: str


def find(place: Place, table: str, default_format: str, options: Mapping[str, Any]) -> Found:
    """What stands under ``table`` now. Raises RVT-403 where nothing does that an engine would read."""
    with looking(place.shown(place.join(table))):
        return _find(place, table, default_format, options)


def _find(place: Place, table: str, default_format: str, options: Mapping[str, Any]) -> Found:
    written = Path(place.join(table))
    paths = roots(place, table, default_format)
    if not paths and is_glob(table):
        raise RivetError("RVT-403", f"no file matches {place.shown(written)}")
    if not paths:
        raise RivetError("RVT-403", f"{place.shown(written)} does not exist{hint(place, written)}")
    first = next(data_files(paths), None)
    if first is None and "schema" not in {key.lower() for key in options}:
        # Names that begin with _ or . are passed over here as Spark passes over them.
        raise RivetError("RVT-403", f"{place.shown(written)} holds no data file, and no `schema` is given")
    format = chosen_format(options) or format_of(table) or (format_of(first.name) if first else None) or default_format
    return Found(format, paths, first.name if first else table)


def roots(place: Place, table: str, default_format: str) -> tuple[Path, ...]:
    """The files and folders that stand under ``table`` now."""
    written = Path(place.join(table))
    paths = existing(written) or existing(Path(f"{written}.{default_format}"))
    if not paths and is_glob(table):
        paths = tuple(found for path in matches(place, table) for found in existing(path))
    return paths


def relation(found: Found, options: Mapping[str, Any]) -> Files:
    """How an engine reads what was found."""
    return Files(
        found.format,
        tuple(str(path) for path in found.paths),
        reader_options(found.format, found.example, options),
    )


def fingerprint(found: Found, place: Place) -> str:
    """A short text that changes when a file comes, goes or is written again.

    Files in folders that the engine passes over count too: a change too many is harmless, a missed one is not.
    """
    digest = hashlib.sha256()
    with looking(place.shown(found.paths[0])):
        for name, file in sorted((os.path.relpath(file, place.folder), file) for file in data_files(found.paths)):
            now = status(file)
            if now is not None:  # else gone since it was listed, or a link to nothing
                digest.update(f"{name}\0{now.st_size}\0{now.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def data_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """All files at and below ``paths``, in order, without those an engine ignores: hidden and ``_`` ones.

    Raises OSError where a folder is there and cannot be listed.
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
            if identity is None or (identity.st_dev, identity.st_ino) in seen:  # a link back to a folder above
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
    """``path`` if it exists; a link to a folder, as each published table is one, is followed once.

    What is planned on the folder itself stays readable when the link is switched. A link to a file keeps its own
    name, whose extension says how the file is compressed.
    """
    if not exists(path):
        return ()
    return (path.resolve(strict=True) if is_link(path) and is_folder(path) else path,)


def is_glob(table: str) -> bool:
    """Whether ``table`` may stand for several files.

    >>> is_glob("days/*.csv"), is_glob("days")
    (True, False)
    """
    return _GLOB.search(table) is not None


def fixed_folder(place: Place, table: str) -> Path:
    """The folder that every match of the glob ``table`` lies in, at any depth."""
    parts = takewhile(lambda part: not is_glob(part), local_path(table).parts)
    return place.folder.joinpath(*parts)


def matches(place: Place, table: str, all_parts: bool = False) -> tuple[Path, ...]:
    """What the glob ``table`` matches, in order, without names that an engine ignores.

    With ``all_parts`` neither is it matched by way of such a folder.
    """
    found = {
        match
        for pattern in without_braces(str(local_path(table)))
        for match in _expanded(*_start(place.folder, Path(pattern)))
    }
    fixed = len(fixed_folder(place, table).parts) if all_parts else -1
    return tuple(path for path in sorted(found) if not any(is_ignored(part) for part in path.parts[fixed:]))


def _start(folder: Path, pattern: Path) -> tuple[Path, tuple[str, ...]]:
    return (Path(pattern.anchor), pattern.parts[1:]) if pattern.is_absolute() else (folder, pattern.parts)


def _expanded(start: Path, parts: tuple[str, ...]) -> list[Path]:
    """Return the matches of a glob. Unlike ``glob.glob``, raises OSError for folders that cannot be listed."""
    found = [start]
    for part in parts:
        if glob.has_magic(part):
            found = [
                folder / name
                for folder in found
                for name in fnmatch.filter(names_in(folder), part)
                if part.startswith(".") or not name.startswith(".")
            ]
        else:
            found = [path for folder in found if exists(path := folder / part)]
    return found


def without_braces(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` stands for, in order. Raises RVT-204 where they are more than a thousand.

    >>> without_braces("{2023,2024}/*.csv")
    ['2023/*.csv', '2024/*.csv']
    """
    found: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        match = _BRACES.search(text)
        choices = match[1].split(",") if match else []
        if len(found) + len(waiting) + len(choices) > _MOST_PATTERNS:
            message = f"the {{a,b}} of `table` stand for more than {_MOST_PATTERNS} patterns"
            raise RivetError("RVT-204", message, remediation="Name fewer, or use `*`.")
        if match:
            waiting += [text[: match.start()] + choice + text[match.end() :] for choice in reversed(choices)]
        else:
            found.append(text)
    return found


def hint(place: Place, path: Path) -> str:
    """What may have been meant by a path that does not exist, as the end of a message."""
    if not is_folder(path.parent):
        return "" if path.parent == path else f"; nor does the folder {place.shown(path.parent)}"
    return nearest(path.name, [name for name in names_in(path.parent) if not is_ignored(name)])
