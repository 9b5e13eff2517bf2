"""The locations of tables, derived from names alone, or, with links followed, from the files on this machine.

A path that leads up from a ``${VAR}`` or a home directory has no location until that is expanded on a machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any

from rivet_dagster.catalogs.filesystem.catalog_location import is_remote, local_path
from rivet_dagster.catalogs.filesystem.sources.table_files import is_glob, without_braces
from rivet_dagster.catalogs.filesystem.stores.store_uri import StoreUri
from rivet_dagster.errors import RivetError
from rivet_dagster.model.location import Location

_HOMES = ".rivet"
_RELATIVE = frozenset({"", ".", ".."})


def resolved(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the options with their ``path`` made absolute on this machine, links resolved."""
    path = str(options["path"])
    if not is_remote(path):
        path = os.path.realpath(os.path.join(root, os.path.expanduser(local_path(path))))
    return {**options, "path": path}


def written(options: Mapping[str, Any], table: str) -> Iterator[Location]:
    """Yield the locations of the link that readers open, and of the folder of the versions.

    >>> list(written({"path": "./lake/"}, "orders"))
    [('path', '.', 'lake', 'orders'), ('path', '.', 'lake', '.rivet', 'orders')]
    """
    folder = _written_folder(str(options.get("path")))
    name = escape(table) if is_glob(table) else table
    yield from _below(folder, (name,))
    yield from _below(folder, (_HOMES, name))


def read(options: Mapping[str, Any], table: str, look: bool) -> Iterator[Location]:
    """Yield the locations of the file or folder, or of the glob as patterns; with ``look``, links are followed.

    >>> list(read({"path": "/data"}, "../raw/{a,b}*", look=False))
    [('path', '/', 'raw', 'a*'), ('path', '/', 'raw', 'b*')]
    """
    folder = str(options.get("path"))
    try:
        names = without_braces(table) if "{" in table else [table]
    except RivetError:
        return  # reported as an error of the table itself
    for name in names:
        if is_remote(folder) or is_remote(name):
            yield from _in_store(folder, name)
        elif look and not is_glob(name):
            yield from _below(_parts(os.path.realpath(os.path.join(folder, local_path(name)))), ())
        else:
            path = str(local_path(name))
            parts = tuple(path.split("/"))
            patterns = parts if is_glob(name) else tuple(map(escape, parts))
            yield from _below(("path", "/") if path.startswith("/") else _parts(folder), patterns)


def _in_store(folder: str, name: str) -> Iterator[Location]:
    """Yield the location of a table in the catalog's store."""
    try:
        home = StoreUri.of(folder)
        path = StoreUri.of(name).path if is_remote(name) else PurePosixPath(name)
    except ValueError:
        return  # reported as an error of the catalog or of the table
    parts = (home.path / path).parts[1:]
    yield from _below(("path", "store", escape(home.root)), parts if is_glob(name) else tuple(map(escape, parts)))


@lru_cache(maxsize=256)
def _written_folder(path: str) -> Location | None:
    """Return the location of a catalog's folder if tables are written there: nothing is written in a store."""
    return None if is_remote(path) else _parts(path)


@lru_cache(maxsize=256)
def _parts(path: str) -> Location | None:
    """Return the location of a catalog's folder; None if it cannot be determined."""
    plain = str(local_path(path))
    kind = "/" if plain.startswith("/") else "."
    return next(iter(_below(("path", kind), tuple(map(escape, plain.split("/"))))), None)


def _below(folder: Location | None, names: tuple[str, ...]) -> tuple[Location, ...]:
    """Return the location of the path ``names`` below ``folder``; nothing if it cannot be determined."""
    if folder is None:
        return ()
    if _RELATIVE.isdisjoint(names):
        return (folder + names,)
    parts = list(folder[2:])
    for name in names:
        if name == ".." and parts and parts[-1] != "..":
            if "${" in parts[-1] or parts[-1].startswith("~"):
                return ()
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    return ((*folder[:2], *parts),)
