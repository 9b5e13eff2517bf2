"""The files of a table with their paths, sizes and modification times."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation, is_remote
from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, looking
from rivet_dagster.catalogs.filesystem.sources.table_files import data_files, fixed_folder, hint, is_glob, roots
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile


def source_files(location: CatalogLocation, table: str, default_format: str) -> tuple[LandedFile, ...]:
    """Return the files of a source that is not a landing zone. Raises RVT-403."""
    path = location.join(table)
    if is_remote(path):
        raise RivetError("RVT-403", f"only the engine can look into {location.shown(path)}")
    return listed(location, table, lambda: roots(location, table, default_format))


def listed(location: CatalogLocation, table: str, find_roots: Callable[[], tuple[Path, ...]]) -> tuple[LandedFile, ...]:
    """Return all files at and below the roots of ``table``, in order, but those that engines ignore.

    None if there are no roots yet but the folder that would contain them exists. Raises RVT-403.
    """
    # A failed listing must not look like an empty one: files that are not listed are forgotten as consumed.
    with looking(location.shown(location.join(table)), "listed"):
        paths = find_roots()
        if not paths:
            path = Path(location.join(table))
            require_folder(location, fixed_folder(location, table) if is_glob(table) else path.parent)
        files = {described(location, path) for path in data_files(paths)}
    return tuple(sorted(file for file in files if file is not None))


def require_folder(location: CatalogLocation, folder: Path) -> None:
    """Raise RVT-403 if there is no such folder, and OSError if it cannot be listed."""
    if not is_folder(folder):
        raise RivetError("RVT-403", f"{location.shown(folder)} does not exist{hint(location, folder)}")
    os.listdir(folder)


def described(location: CatalogLocation, path: Path, named: Path | None = None) -> LandedFile | None:
    """Return the file at ``path``, described with the path ``named``; None if it does not exist or is a broken link."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    named = named or path
    inside = named.is_relative_to(location.folder)
    return LandedFile(str(named.relative_to(location.folder) if inside else named), status.st_size, status.st_mtime_ns)
