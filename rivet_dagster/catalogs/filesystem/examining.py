"""Findings of whether a run could read and publish tables in a folder, tried out beside the tables."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rivet_dagster.catalogs.capabilities.upkeep import small_files
from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation
from rivet_dagster.catalogs.filesystem.declared import PUBLISH_WITH_ICEBERG
from rivet_dagster.catalogs.filesystem.files.file_status import (
    exists,
    is_folder,
    translate_read_errors,
    translate_write_errors,
)
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree
from rivet_dagster.catalogs.filesystem.sources.landing import require_folder
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.lifecycle import UNSUPPORTED
from rivet_dagster.catalogs.filesystem.versions.sweep import leftovers_of
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import amount, free_space, little_space
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.paths import keep_out_of_git

_NAMES = 5
"""The number of leftovers that a finding names."""


def examine(
    subject: str, location: CatalogLocation, tables: Callable[[], Sequence[TableLayout]], publishes: bool
) -> Iterator[Finding]:
    """Return findings of trying to read at ``location`` and, if a project ``publishes`` there, to switch tables."""
    shown = location.shown(location.folder)
    try:
        _try_to_read(location.folder, shown, publishes)
        with translate_read_errors(shown):
            shares = not publishes or _try_to_publish(location.folder, shown)
            space = tuple(little_space(subject, location.folder, shown)) if publishes else ()
            free = amount(free_space(location.folder))
        leftovers, errors = _leftovers(tables() if publishes else ())
    except RivetError as error:
        yield from broken(subject, error)
        return
    for damage in errors:
        yield from broken(subject, damage)
    if not errors:
        state = f"tables can be published, {free} free" if publishes else "can be read"
        yield in_order(subject, f"{shown}: {state}")
    yield from space
    if not shares:
        text = f"{shown} has no hard links: a write that changes a part of a table copies all of it"
        yield doubtful(subject, text, "Put it on a POSIX file system.")
    if leftovers:
        named = ", ".join(leftovers[:_NAMES]) + (", ..." if len(leftovers) > _NAMES else "")
        text = f"{len(leftovers)} leftover{'' if len(leftovers) == 1 else 's'} of dead runs: {named}"
        yield doubtful(subject, text, "`rivet-dagster sweep` removes them, and so does the next write of each table.")


def examine_store(subject: str, tree: FileTree, publishes: bool) -> Iterator[Finding]:
    """Return findings of trying to list the folder of a catalog in a store."""
    shown = tree.shown(tree.folder)
    try:
        if publishes:
            message = f"{shown} has no atomic switch from one version of a table to the next"
            raise RivetError("RVT-402", message, remediation=PUBLISH_WITH_ICEBERG)
        with tree.looking(tree.folder, "listed"):
            require_folder(tree, tree.folder)
    except RivetError as error:
        yield from broken(subject, error)
    else:
        yield in_order(subject, f"{shown}: can be read")


def examine_files(subject: str, folder: Path) -> Iterator[Finding]:
    """Return the finding of many small files in the folder of a version. Raises RVT-403."""
    with translate_read_errors(folder):
        sizes = [path.stat().st_size for path in parquet_files(folder)]
    remedy = "Make it anew by `run --full-refresh`, or store it in an Iceberg catalog, whose upkeep joins files."
    yield from small_files(subject, len(sizes), sum(sizes), remedy)


def _leftovers(tables: Iterable[TableLayout]) -> tuple[list[str], list[RivetError]]:
    names: list[str] = []
    errors: list[RivetError] = []
    for table in tables:
        try:
            with translate_write_errors(table.home):
                names += [f"{table.name}/{name}" for name in leftovers_of(table)]
        except RivetError as error:
            errors.append(error)
    return names, errors


def _try_to_read(folder: Path, shown: str, publishes: bool) -> None:
    try:
        os.scandir(folder).close()
    except FileNotFoundError as error:
        if not publishes:  # else the first run creates it
            raise RivetError("RVT-403", f"there is no folder {shown}") from error
    except OSError as error:
        raise RivetError("RVT-403", f"{shown} cannot be read: {error.strerror}") from error


def _try_to_publish(folder: Path, shown: str) -> bool:
    """Try all operations by which a run publishes; return False if only hard links fail. Raises RVT-402, RVT-404."""
    versions = folder / ".rivet"
    if is_folder(versions) and versions.stat().st_dev != folder.stat().st_dev:
        raise RivetError("RVT-402", f"{versions} and {shown} are not on one file system: no table can be switched")
    existing = next(path for path in (folder, *folder.parents) if exists(path))
    with translate_write_errors(existing), TemporaryDirectory(prefix=".rivet-doctor-", dir=existing) as name:
        probe = Path(name)
        keep_out_of_git(probe)
        (probe / "file").touch()
        try:
            for _ in range(2):  # the second time to replace the link of the first
                (probe / "new").symlink_to("file")
                os.replace(probe / "new", probe / "link")
            with open(probe / "lock", "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                message = f"the file system of {shown} cannot switch tables: {error.strerror}"
                raise RivetError("RVT-402", message) from error
            raise
        try:
            os.link(probe / "file", probe / "shared")
        except OSError as error:
            if error.errno in UNSUPPORTED:
                return False
            raise
    return True
