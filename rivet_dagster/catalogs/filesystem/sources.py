"""A source's table: a file, a directory or a glob, found where it is and fingerprinted without being read."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.formats import chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.place import Place, local_path
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.storage import Files

_GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Found:
    """The files and folders that make up a table, its format, and the name of its first file as an example."""

    format: str
    paths: tuple[Path, ...]
    example: str


def find(place: Place, table: str, default_format: str, options: Mapping[str, Any]) -> Found:
    """What stands under ``table`` now. Raises RVT-403 where nothing does that an engine would read."""
    written = Path(place.join(table))
    paths = _existing(written) or _existing(Path(f"{written}.{default_format}"))
    if not paths and _GLOB.search(table):
        paths = _matches(place, table)
        if not paths:
            raise RivetError("RVT-403", f"no file matches {place.shown(written)}")
    if not paths:
        raise RivetError("RVT-403", f"{place.shown(written)} does not exist{_hint(place, written)}")
    first = next(data_files(paths), None)
    if first is None and "schema" not in {key.lower() for key in options}:
        # Names that begin with _ or . are passed over here as Spark passes over them.
        raise RivetError("RVT-403", f"{place.shown(written)} holds no data file, and no `schema` is given")
    format = chosen_format(options) or format_of(table) or (format_of(first.name) if first else None) or default_format
    return Found(format, paths, first.name if first else table)


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
    for name, file in sorted((os.path.relpath(file, place.folder), file) for file in data_files(found.paths)):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # gone since it was listed, or a link to nothing
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def data_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """All files at and below ``paths``, in order, without those an engine ignores: hidden and ``_`` ones."""
    seen = set()
    for path in paths:
        if not path.is_dir():
            if not _is_ignored(path.name):
                yield path
            continue
        for directory, folders, files in os.walk(path, followlinks=True):
            identity = os.stat(directory)
            folders[:] = sorted(name for name in folders if not _is_ignored(name))
            if (identity.st_dev, identity.st_ino) in seen:  # a link back to a folder above
                folders.clear()
                continue
            seen.add((identity.st_dev, identity.st_ino))
            yield from (Path(directory, name) for name in sorted(files) if not _is_ignored(name))


def _is_ignored(name: str) -> bool:
    # A partition folder may be named after a column that begins with an underscore.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _existing(path: Path) -> tuple[Path, ...]:
    """``path`` if it exists; a link to a folder, as each published table is one, is followed once.

    What is planned on the folder itself stays readable when the link is switched. A link to a file keeps its own
    name, whose extension says how the file is compressed.
    """
    if not path.exists():
        return ()
    return (path.resolve() if path.is_symlink() and path.is_dir() else path,)


def _matches(place: Place, table: str) -> tuple[Path, ...]:
    found = {
        Path(match)
        for pattern in _without_braces(str(local_path(table)))
        for match in glob.glob(os.path.join(glob.escape(str(place.folder)), pattern))
    }
    return tuple(p for path in sorted(found) if not _is_ignored(path.name) for p in _existing(path))


def _without_braces(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` stands for.

    >>> _without_braces("{2023,2024}/*.csv")
    ['2023/*.csv', '2024/*.csv']
    """
    match = _BRACES.search(pattern)
    if not match:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [p for choice in match[1].split(",") for p in _without_braces(before + choice + after)]


def _hint(place: Place, path: Path) -> str:
    if not path.parent.is_dir():
        return "" if path.parent == path else f"; nor does the folder {place.shown(path.parent)}"
    return nearest(path.name, [name for name in os.listdir(path.parent) if not _is_ignored(name)])
