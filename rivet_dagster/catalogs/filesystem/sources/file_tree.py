"""The file system that the files of sources are on, as far as they need it: this machine's, or an object store."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import MISSING, REMEDY, exists, is_link, names_in, status
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.paths import local_path, shown_from


@dataclass(frozen=True)
class FileStatus:
    """The size of a file in bytes and its modification time; those of a folder have no meaning."""

    size: int
    mtime_ns: int
    is_folder: bool = False


Move = tuple[PurePath, PurePath, FileStatus]
"""The path of a file, the path that it gets, and the status that it must still have."""


class FileTree(ABC):
    """One look at the files of a file system; ``folder`` is the catalog's. All paths are absolute in that file system.

    Methods that look something up raise OSError, which ``looking`` turns into RVT-403. What has been looked up may be
    remembered, so each question of a catalog begins with a tree of its own.
    """

    folder: PurePath
    keeps_folders: bool
    """Whether a folder exists by itself, and not only as long as there are files in it."""

    @abstractmethod
    def path_of(self, table: str) -> PurePath:
        """Return the path or glob that ``table`` is, relative to the catalog's folder or absolute."""

    @abstractmethod
    def uri(self, path: PurePath) -> str:
        """Return the URI of a path, as engines take it."""

    def address(self, path: PurePath) -> str:
        """Return how a relation names a path."""
        return self.uri(path)

    @abstractmethod
    def shown(self, path: PurePath) -> str:
        """Return a path for a message, without secrets."""

    @abstractmethod
    def status(self, path: PurePath) -> FileStatus | None:
        """Return the status of a file or folder, with links followed; None if it does not exist."""

    @abstractmethod
    def names_in(self, folder: PurePath) -> list[str]:
        """Return the names in a folder, in order; none if it does not exist."""

    @abstractmethod
    def data_files(self, paths: Sequence[PurePath]) -> Iterator[LandedFile]:
        """Yield all files at and below ``paths``, folder by folder, but those that engines ignore (``is_ignored``).

        What is removed meanwhile, and broken links, are left out.
        """

    def described(self, path: PurePath) -> LandedFile | None:
        """Return the file at ``path``; None if it does not exist or is a broken link."""
        status = self.status(path)
        return LandedFile(self.text(path), status.size, status.mtime_ns) if status is not None else None

    def text(self, path: PurePath) -> str:
        """Return a path as files are named: relative to the folder of the catalog if it is inside."""
        text, folder = str(path), str(self.folder)
        if text == folder:
            return "."
        beginning = folder if folder.endswith("/") else f"{folder}/"
        return text.removeprefix(beginning)

    @abstractmethod
    def open(self, path: PurePath) -> Any:
        """Open a file for reading bytes, at any position."""

    @abstractmethod
    def move(self, path: PurePath, target: PurePath, expected: FileStatus) -> None:
        """Move a file to ``target`` if its status is still ``expected``; else, or if it is gone, leave everything.

        Raises FileExistsError if there is something at ``target``, or at ``path`` when another file must go back there.
        """

    def move_all(self, moves: Iterable[Move]) -> Iterator[tuple[Move, OSError]]:
        """Move files as ``move`` does, and yield those that could not be moved, each with its error."""
        return ((move, error) for move in moves if (error := self.try_move(move)) is not None)

    def try_move(self, move: Move) -> OSError | None:
        """Move a file, and return the error if it could not be moved."""
        try:
            self.move(*move)
        except OSError as error:
            return error
        return None

    @abstractmethod
    def trouble(self, error: Exception) -> tuple[str, str | None]:
        """Return what is wrong by an exception of one of the methods, as the end of a sentence, and a remedy."""

    def join(self, table: str) -> PurePath:
        """Return the absolute path or glob of ``table``."""
        return self.folder / self.path_of(table)

    def existing(self, path: PurePath) -> tuple[PurePath, ...]:
        """Return ``path`` if it exists."""
        return (path,) if self.exists(path) else ()

    def exists(self, path: PurePath) -> bool:
        """Return whether there is something at ``path``."""
        return self.status(path) is not None

    def is_folder(self, path: PurePath) -> bool:
        """Return whether there is a folder at ``path``."""
        status = self.status(path)
        return status is not None and status.is_folder

    @contextmanager
    def looking(self, path: PurePath, verb: str = "looked up") -> Iterator[None]:
        """Turn an OSError of the block, which looks up ``path``, into RVT-403."""
        try:
            yield
        except OSError as error:
            why, remedy = self.trouble(error)
            raise RivetError("RVT-403", f"{self.shown(path)} cannot be {verb}: {why}", remediation=remedy) from error


def is_ignored(name: str) -> bool:
    """Return whether engines ignore a file or folder of that name.

    >>> [is_ignored(name) for name in (".part.crc", "_SUCCESS", "_day=1", "a.csv")]
    [True, True, False, False]
    """
    # A partition folder may be named after a column that begins with an underscore.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class LocalTree(FileTree):
    """Messages show paths relative to ``root``, if they lie inside it."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder: PurePath = folder
        self.keeps_folders = True
        self._root = root

    def path_of(self, table: str) -> PurePath:
        """Return a plain path or a ``file:`` URI as a path."""
        return local_path(table)

    def uri(self, path: PurePath) -> str:
        """Return a ``file:`` URI in which nothing is escaped."""
        return f"file://{path}"

    def address(self, path: PurePath) -> str:
        """Return the path itself."""
        return str(path)

    def shown(self, path: PurePath) -> str:
        """Return the path, relative to the project if it lies inside it."""
        return str(path) if self._root is None else shown_from(self._root, path)

    def status(self, path: PurePath) -> FileStatus | None:
        """Return what ``os.stat`` returns."""
        now = status(path)
        return None if now is None else FileStatus(now.st_size, now.st_mtime_ns, stat.S_ISDIR(now.st_mode))

    def names_in(self, folder: PurePath) -> list[str]:
        """Return what ``os.listdir`` returns, in order."""
        return names_in(folder)

    def existing(self, path: PurePath) -> tuple[PurePath, ...]:
        """Return ``path`` if it exists; a link to a folder, such as a published table, is resolved.

        A query that is planned on the folder itself can still be read after the link is switched. A link to a file is
        not resolved, since the extension of its own name says how the file is compressed.
        """
        if not self.exists(path):
            return ()
        return (Path(os.path.realpath(path, strict=True)) if is_link(path) and self.is_folder(path) else path,)

    def data_files(self, paths: Sequence[PurePath]) -> Iterator[LandedFile]:
        """Yield them; links to folders are followed, each folder once."""
        seen: set[tuple[int, int]] = set()
        for path in paths:
            if self.is_folder(path):
                yield from self._files_below(path, seen)
            elif not is_ignored(path.name) and (file := self.described(path)) is not None:
                yield file

    def _files_below(self, folder: PurePath, seen: set[tuple[int, int]]) -> Iterator[LandedFile]:
        identity = status(folder)
        if identity is None or (identity.st_dev, identity.st_ino) in seen:  # a link to a parent folder
            return
        seen.add((identity.st_dev, identity.st_ino))
        try:
            with os.scandir(folder) as scanned:
                entries = sorted((entry for entry in scanned if not is_ignored(entry.name)), key=attrgetter("name"))
        except FileNotFoundError:
            return
        shown, folders = self.text(folder), []
        beginning = "" if shown == "." else f"{shown}/"
        for entry in entries:
            if entry.is_dir():
                folders.append(folder / entry.name)
            elif (entry_status := _status_of(entry)) is not None:
                yield LandedFile(f"{beginning}{entry.name}", entry_status.st_size, entry_status.st_mtime_ns)
        for path in folders:
            yield from self._files_below(path, seen)

    def open(self, path: PurePath) -> Any:
        """Open a file of Python."""
        return open(path, "rb")

    def move(self, path: PurePath, target: PurePath, expected: FileStatus) -> None:
        """Rename the file, and rename it back if another one had replaced it."""
        if self.status(path) != expected:
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if exists(target, follow=False):
            raise FileExistsError(f"{self.shown(target)} exists already")
        linked = os.path.realpath(path) if is_link(path) else None
        try:
            os.rename(path, target)
        except FileNotFoundError:
            return  # another run has moved it
        if linked is not None and is_link(target):
            # A relative link would have another target at its new path.
            Path(target).unlink()
            Path(target).symlink_to(linked)
        # Another file may have replaced it between the check and the rename: only after the rename is it certain.
        if self.status(target) != expected:
            os.link(target, path)  # fails if yet another file has that name by now
            Path(target).unlink()

    def trouble(self, error: Exception) -> tuple[str, str | None]:
        """Return the operating system's text."""
        return str(getattr(error, "strerror", None) or error), REMEDY


def _status_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise
