"""The files of a table with their paths, sizes and modification times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree
from rivet_dagster.catalogs.filesystem.sources.table_files import fixed_folder, hint, is_glob, roots
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile


def source_files(tree: FileTree, table: str, default_format: str) -> tuple[LandedFile, ...]:
    """Return the files of a source that is not a landing zone. Raises RVT-403."""
    return listed(tree, table, lambda: roots(tree, table, default_format))


def listed(tree: FileTree, table: str, find_roots: Callable[[], tuple[PurePath, ...]]) -> tuple[LandedFile, ...]:
    """Return all files at and below the roots of ``table``, in order, but those that engines ignore.

    None if there are no roots yet but the folder that would contain them exists. Raises RVT-403.
    """
    path = tree.join(table)
    # A failed listing must not look like an empty one: files that are not listed are forgotten as consumed.
    with tree.looking(path, "listed"):
        paths = find_roots()
        if not paths:
            require_folder(tree, fixed_folder(tree, table) if is_glob(table) else path.parent)
        files = {described(tree, file) for file in tree.data_files(paths)}
    return tuple(sorted(file for file in files if file is not None))


def require_folder(tree: FileTree, folder: PurePath) -> None:
    """Raise RVT-403 if there is no such folder where folders exist by themselves, and OSError if it cannot be listed.

    In an object store a folder without files is as good as one that nobody has made.
    """
    if tree.keeps_folders and not tree.is_folder(folder):
        raise RivetError("RVT-403", f"{tree.shown(folder)} does not exist{hint(tree, folder)}")
    tree.names_in(folder)


def described(tree: FileTree, path: PurePath) -> LandedFile | None:
    """Return the file at ``path``; None if it does not exist or is a broken link."""
    status = tree.status(path)
    if status is None:
        return None
    inside = path.is_relative_to(tree.folder)
    return LandedFile(str(path.relative_to(tree.folder) if inside else path), status.size, status.mtime_ns)
