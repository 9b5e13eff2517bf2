"""The files of a table, each told by its path, size and time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rivet_dagster.catalogs.filesystem.place import Place, is_remote
from rivet_dagster.catalogs.filesystem.presence import is_folder, looking
from rivet_dagster.catalogs.filesystem.sources import data_files, fixed_folder, hint, is_glob, roots
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile


def source_files(place: Place, table: str, default_format: str) -> tuple[LandedFile, ...]:
    """The files of a source that is no landing zone. Raises RVT-403."""
    where = place.join(table)
    if is_remote(where):
        raise RivetError("RVT-403", f"only the engine can look into {place.shown(where)}")
    return listed(place, table, lambda: roots(place, table, default_format))


def listed(place: Place, table: str, find_roots: Callable[[], tuple[Path, ...]]) -> tuple[LandedFile, ...]:
    """All files at and below the roots of ``table``, in order, but those that an engine ignores.

    No files where there are no roots yet, but the folder that they would come to. Raises RVT-403.
    """
    # No list may look like an empty one: what is not there any more is forgotten.
    with looking(place.shown(place.join(table)), "listed"):
        paths = find_roots()
        if not paths:
            require_folder(place, fixed_folder(place, table) if is_glob(table) else Path(place.join(table)).parent)
        found = {described(place, path) for path in data_files(paths)}
    return tuple(sorted(file for file in found if file is not None))


def require_folder(place: Place, folder: Path) -> None:
    """Raises RVT-403 where there is no such folder, and OSError where nobody can look into it."""
    if not is_folder(folder):
        raise RivetError("RVT-403", f"{place.shown(folder)} does not exist{hint(place, folder)}")
    os.listdir(folder)


def described(place: Place, path: Path, named: Path | None = None) -> LandedFile | None:
    """The file at ``path`` as if it lay at ``named``; None where there is none, or a link to nothing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    named = named or path
    inside = named.is_relative_to(place.folder)
    return LandedFile(str(named.relative_to(place.folder) if inside else named), status.st_size, status.st_mtime_ns)
