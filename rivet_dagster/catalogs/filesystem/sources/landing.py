"""Landing zones: directories and globs whose files, with size and time, are tracked, read and archived one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import PurePath
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import LandingZone
from rivet_dagster.catalogs.filesystem.sources.file_tree import FileStatus, FileTree, Move, is_ignored
from rivet_dagster.catalogs.filesystem.sources.table_files import (
    chosen_format,
    fixed_folder,
    format_of,
    hint,
    is_glob,
    matches,
    reader_options,
    roots,
    without_braces,
)
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files

ARCHIVE = "_archive"
"""The folder beside the files to which they are archived; engines ignore it, and so does this catalog."""

_SHOWN = 3


@dataclass(frozen=True)
class FilesystemLandingZone(LandingZone):
    """The files below a directory, or the files and folders that a glob matches; ``look`` returns a new tree of them.

    Writers should rename finished files into it: a file that is still being written is read as far as it goes, and
    read again as a whole when it has grown.
    """

    look: Callable[[], FileTree]
    table: str
    default_format: str
    options: Mapping[str, Any]

    def files(self) -> tuple[LandedFile, ...]:
        """Return all files but hidden ones and those whose names, or whose folders' names, begin with ``_``."""
        tree = self.look()
        return list_files(tree, self.table, lambda: self._roots(tree))

    def relation(self, files: Sequence[LandedFile]) -> Files:
        """Return a relation that lists the files; partition folders below a directory become columns."""
        tree = self.look()
        example = PurePath(files[0].path).name if files else self.table
        format = chosen_format(self.options) or format_of(self.table) or format_of(example) or self.default_format
        options = reader_options(format, example, self.options)
        path = tree.join(self.table)
        with tree.looking(path):
            folder = tree.existing(path)
        if folder and "basepath" not in {key.lower() for key in options}:
            options["basePath"] = tree.uri(folder[0])
        return Files(format, tuple(tree.address(tree.folder / file.path) for file in files), options)

    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move files to ``_archive/<name>`` beside them."""
        tree = self.look()
        moves = (_move(tree.folder / file.path, name, file) for file in files)
        failed = [f"{tree.shown(path)}: {tree.trouble(error)[0]}" for (path, *_), error in tree.move_all(moves)]
        if failed:
            more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
            raise RivetError("RVT-410", f"cannot archive {'; '.join(failed[:_SHOWN])}{more}")

    def archived(self) -> str | None:
        """Return the first file in the folders to which ``archive`` moves files."""
        tree = self.look()
        path = tree.join(self.table)
        with tree.looking(path, "listed"):
            file = next(self._archived(tree), None)
        return tree.shown(file) if file is not None else None

    def _archived(self, tree: FileTree) -> Iterator[PurePath]:
        """Yield the archived files of the directory, or those whose former paths the glob matches."""
        roots = self._roots(tree)
        if is_glob(self.table) and not tree.is_folder(tree.join(self.table)):
            for pattern in map(PurePath, without_braces(str(tree.path_of(self.table)))):
                yield from matches(tree, str(pattern.parent / ARCHIVE / "*" / pattern.name))
        folders, seen = [root for root in roots if tree.is_folder(root)], set[PurePath]()
        while folders:
            for folder in set(tree.existing(folders.pop())) - seen:  # a link may lead to a parent folder
                seen.add(folder)
                for path in _folders_in(tree, folder):
                    if path.name == ARCHIVE:
                        versions = _folders_in(tree, path)
                        yield from (version / name for version in versions for name in tree.names_in(version))
                    elif not is_ignored(path.name):
                        folders.append(path)

    def _roots(self, tree: FileTree) -> tuple[PurePath, ...]:
        """Return the directory, or all matches of the glob."""
        path = tree.join(self.table)
        if tree.is_folder(path):
            return tree.existing(path)
        if tree.exists(path):
            message = f"{tree.shown(path)} is a file: a landing zone is a directory or a glob"
            raise RivetError("RVT-321", message)
        folder = fixed_folder(tree, self.table) if is_glob(self.table) else path
        require_folder(tree, folder)
        return tuple(root for match in matches(tree, self.table, all_parts=True) for root in tree.existing(match))


def _move(path: PurePath, name: str, file: LandedFile) -> Move:
    return path, path.parent / ARCHIVE / name / path.name, FileStatus(file.size, file.mtime_ns)


def _folders_in(tree: FileTree, folder: PurePath) -> list[PurePath]:
    return [path for name in tree.names_in(folder) if tree.is_folder(path := folder / name)]


def source_files(tree: FileTree, table: str, default_format: str) -> tuple[LandedFile, ...]:
    """Return the files of a source that is not a landing zone. Raises RVT-403."""
    return list_files(tree, table, lambda: roots(tree, table, default_format))


def list_files(tree: FileTree, table: str, find_roots: Callable[[], tuple[PurePath, ...]]) -> tuple[LandedFile, ...]:
    """Return all files at and below the roots of ``table``, in order, but those that engines ignore.

    None if there are no roots yet but the folder that would contain them exists. Raises RVT-403.
    """
    path = tree.join(table)
    # A failed listing must not look like an empty one: files that are not listed are forgotten as consumed.
    with tree.looking(path, "listed"):
        paths = find_roots()
        if not paths:
            require_folder(tree, fixed_folder(tree, table) if is_glob(table) else path.parent)
        files = sorted(tree.data_files(paths), key=attrgetter("path"))
    # The braces of a glob may name a file twice.
    return tuple(next(same) for _, same in groupby(files, attrgetter("path")))


def require_folder(tree: FileTree, folder: PurePath) -> None:
    """Raise RVT-403 if there is no such folder where folders exist by themselves, and OSError if it cannot be listed.

    In an object store a folder without files is as good as one that nobody has made.
    """
    if tree.keeps_folders and not tree.is_folder(folder):
        raise RivetError("RVT-403", f"{tree.shown(folder)} does not exist{hint(tree, folder)}")
    tree.names_in(folder)
