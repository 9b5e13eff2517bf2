"""The class methods of the catalog ``filesystem``, which need only options and names of tables, and its locations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.staging import wrong_publish
from rivet_dagster.catalogs.capabilities.targets import PlanType
from rivet_dagster.catalogs.filesystem.declared import wrong_sink, wrong_source
from rivet_dagster.catalogs.filesystem.sources.table_files import FORMATS, format_of, is_glob, without_braces
from rivet_dagster.catalogs.filesystem.stores.store import StoreUri, wrong_store
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.target import PUBLISH, Location
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.paths import is_remote, local_path, resolve_path


class FilesystemTraits:
    """Its options, and the methods that the compiler calls on the class."""

    type: ClassVar[str] = "filesystem"
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    options: ClassVar[frozenset[str]] = frozenset({"path", "format", "versions", "options", PUBLISH})

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        wrong: dict[str, str] = {}
        path, format, versions = options.get("path"), options.get("format", "parquet"), options.get("versions", 2)
        if not isinstance(path, str) or not path:
            wrong["path"] = f"must be a path, not {show(path)}" if "path" in options else "is missing"
        else:
            wrong |= wrong_store(path, options.get("options", {}))
        if not is_unexpanded(format) and format not in FORMATS:
            wrong["format"] = f"must be one of {', '.join(FORMATS)}, not {show(format)}{nearest(str(format), FORMATS)}"
        # An expanded variable is always a text.
        is_number = not isinstance(versions, bool) and str(versions).isdecimal() and int(versions) >= 1
        if not is_unexpanded(versions) and not is_number:
            wrong["versions"] = f"must be a whole number of at least 1, not {show(versions)}"
        return wrong | wrong_publish(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the name of a sink and its Parquet writer options, or the name and reader options of a source."""
        return wrong_sink(options, table, joint_options) if is_written else wrong_source(options, table, joint_options)

    @classmethod
    def file_format(cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any]) -> str | None:
        """Return the format of a source's files by its options, its name and the catalog, in this order."""
        return str(joint_options.get("format") or format_of(table) or options.get("format", "parquet"))

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the options with an absolute path, links resolved."""
        return resolve_options(options, root)

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the paths of the table's link and of its versions."""
        return written(options, table)

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the paths that the table names, and patterns of paths for a glob."""
        return read(options, table, look)


_HOMES = ".rivet"
_RELATIVE = frozenset({"", ".", ".."})


def resolve_options(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the options with their ``path`` made absolute on this machine, links resolved."""
    path = str(options["path"])
    if not is_remote(path):
        path = resolve_path(path, root)
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
