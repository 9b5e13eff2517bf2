"""The files of a server of a project, all of them in a folder that only its owner can enter."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from weakref import finalize

from rivet_dagster.paths import make_rivet_folder

_POLL_SECONDS = 0.1
_LONGEST_LOG = 10_000_000
_LONGEST_END = 65_536


@dataclass(frozen=True)
class ServerFiles:
    """The files of one engine's server in the project at ``root``; ``kind`` is the folder of servers of its kind."""

    root: Path
    engine: str
    kind: str = "spark"

    @property
    def folder(self) -> Path:
        """The folder of all servers of this kind of the project."""
        return self.root / ".rivet" / self.kind

    @property
    def record(self) -> Path:
        """The record of the running server."""
        return self.folder / f"{self.engine}.json"

    @property
    def log(self) -> Path:
        """The output of the server."""
        return self.folder / f"{self.engine}.log"

    def rotate_log(self) -> None:
        """Move what a log of more than 10 MB contains to a second file, which had what came before that.

        The server continues to write to the same file; a line that it writes at this moment may be lost. Where the log
        has been removed, or cannot be copied, it stays as it is.
        """
        with suppress(OSError):
            if self.log.stat().st_size > _LONGEST_LOG:
                older = self.log.with_name(f"{self.log.name}.1")
                self.open_private(older).close()
                shutil.copyfile(self.log, older)
                os.truncate(self.log, 0)

    def end_of_log(self) -> str:
        """Return the last 64 KB of the log; empty if there is no log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LONGEST_END))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def settings(self, supervisor: int) -> Path:
        """Spark's settings that the server of a supervisor starts with."""
        return self.folder / f"{self.engine}.{supervisor}.conf"

    def remove_old_settings(self) -> None:
        """Remove the settings that killed supervisors have left."""
        for path in self.folder.glob(f"{self.engine}.*.conf"):
            path.unlink(missing_ok=True)

    def create_folder(self) -> None:
        """Create the folder, so that only this user can enter it."""
        make_rivet_folder(self.folder)
        self.folder.chmod(0o700)

    def open_private(self, path: Path) -> IO[str]:
        """Open an empty file that only this user can read; what is written is added to its end."""
        path.unlink(missing_ok=True)  # an older one could have other permissions
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        return os.fdopen(opened, "w", encoding="utf-8")

    @contextmanager
    def starting(self) -> Iterator[int]:
        """Wait for the lock that is held while a server starts or is stopped, and yield its file descriptor.

        A process that inherits the descriptor holds the lock, too.
        """
        lock = _opened(self.folder / f"{self.engine}.lock")
        try:
            while not _locked(lock, fcntl.LOCK_EX):
                time.sleep(_POLL_SECONDS)
            yield lock
        finally:
            os.close(lock)

    def users(self) -> Users:
        """Open the file that every process that uses the server has locked."""
        return Users(_opened(self.folder / f"{self.engine}.users"))


class Users:
    """A shared lock of all processes that use a server: whoever gets it alone knows that nobody else does."""

    def __init__(self, lock: int) -> None:
        self._lock = lock
        self.close = finalize(self, os.close, lock)
        """Release the lock; so does the end of this object."""

    def join(self) -> None:
        """Use the server from now on, until this object is closed or the process ends, however it ends."""
        while not _locked(self._lock, fcntl.LOCK_SH):
            time.sleep(_POLL_SECONDS)
        os.utime(self._lock)

    def alone(self) -> bool:
        """Return whether nobody else uses the server; then nobody can begin to until this object is closed."""
        return _locked(self._lock, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Let others have the lock, without closing it."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    @property
    def last_joined(self) -> float:
        """When the last process joined, in seconds since the epoch."""
        return os.fstat(self._lock).st_mtime


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _locked(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
