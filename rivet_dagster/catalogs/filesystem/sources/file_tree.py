"""The file system that the files of sources are on, this machine's or an object store, as far as they need it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rivet_dagster.errors import RivetError


@dataclass(frozen=True)
class FileStatus:
    """The size of a file in bytes and its modification time; those of a folder have no meaning."""

    size: int
    mtime_ns: int
    is_folder: bool = False


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
    def data_files(self, paths: Sequence[PurePath]) -> Iterator[PurePath]:
        """Yield all files at and below ``paths``, in order, but those that engines ignore (``is_ignored``)."""

    @abstractmethod
    def open(self, path: PurePath) -> Any:
        """Open a file for reading bytes, at any position."""

    @abstractmethod
    def move(self, path: PurePath, target: PurePath, expected: FileStatus) -> None:
        """Move a file to ``target`` if its status is still ``expected``; else, or if it is gone, leave everything.

        Raises FileExistsError if there is something at ``target``, or at ``path`` when another file must go back there.
        """

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
