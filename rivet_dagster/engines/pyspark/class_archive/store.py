"""The archives in a folder: one folder for each JVM, named by its key, with the files and their sizes and hashes.

The folder of the archives, and whether others than this user could have written to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm

VARIABLE = "RIVET_CLASS_ARCHIVE"
_OFF = frozenset({"false", "0", "no", "off"})


def archive_folder(option: str | bool | None, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the archives, None where they are turned off.

    ``option`` is the engine's ``class_archive``, a folder or False; without it the variable ``RIVET_CLASS_ARCHIVE``
    says so, and without both it is in the user's cache folder, as the XDG Base Directory Specification has it.

    >>> archive_folder(None, {"XDG_CACHE_HOME": "/home/ann/.cache"}).as_posix()
    '/home/ann/.cache/rivet_dagster/class-archives'
    >>> archive_folder(None, {"RIVET_CLASS_ARCHIVE": "false"}), archive_folder(False, {})
    (None, None)
    """
    if option is False:
        return None
    chosen = option if isinstance(option, str) else environ.get(VARIABLE, "")
    if chosen and not isinstance(option, str) and chosen.lower() in _OFF:
        return None
    if chosen:
        return Path(chosen).expanduser().absolute()
    # The specification has relative paths ignored.
    cache = environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache) if cache.startswith("/") else _home(environ) / ".cache"
    return folder / "rivet_dagster" / "class-archives"


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def writable_by_others(path: Path) -> Path | None:
    """Return what of ``path`` and its folders others could have written to, None if there is no such place.

    An archive is code, so that it is used only if it belongs, with all its folders, to this user or to root, and if
    nobody else may write there. In a folder with the sticky bit, such as ``/tmp``, nobody can replace the files of
    others. ``path`` has no symbolic links. Raises OSError if it does not exist.
    """
    for place in (path, *path.parents):
        state = place.stat()
        if state.st_uid not in (0, os.getuid()):
            return place
        shared = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared and not (stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX):
            return place
    return None


DESCRIPTION = "archive.json"
MOST = 4
"""How many archives a folder holds, of some 170 MB each; the one that was not used for the longest time is removed."""
_MAKING = ".making-"


@dataclass(frozen=True)
class Archive:
    """An intact archive: its files, of which each builds on the one before."""

    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(file.stat().st_size for file in self.files)


@dataclass(frozen=True)
class NoArchive:
    """Why there is no archive that can be used; ``damaged`` if one is there."""

    reason: str
    damaged: bool = False


def find_archive(folder: Path, jvm: SparkJvm) -> Archive | NoArchive:
    """Return the archive of a JVM if it is intact and nobody else can have written it.

    A JVM dies of a truncated archive (SIGBUS), so files are compared with the sizes and hashes that they had when they
    were made: all of their bytes where their inode or a time of it has changed since, otherwise these alone.
    """
    path = folder / jvm.key
    try:
        path = path.resolve(strict=True)
        description = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        files = tuple((path / name).resolve(strict=True) for name in description["files"])
        for place in (path / DESCRIPTION, *files):
            if (foreign := writable_by_others(place.resolve(strict=True))) is not None:
                return NoArchive(f"others can write to {foreign}", damaged=True)
        if any(":" in str(file) for file in files):
            return NoArchive(f"Java reads no archive in a folder with a colon in its name: {path}", damaged=True)
        states = {name: _state(path / name) for name in description["files"]}
        if states != description["states"]:
            if damaged := _damaged(path, description):
                return NoArchive(f"{path / damaged} is damaged", damaged=True)
            with suppress(OSError):  # where it cannot be written, the next start compares all bytes again
                _describe(path, {**description, "states": states})
        with suppress(OSError):  # a folder that cannot be written is not cleaned up either
            os.utime(path / DESCRIPTION)
        return Archive(files)
    except FileNotFoundError:
        return NoArchive("there is none yet")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return NoArchive(f"{path} cannot be read: {error}", damaged=True)


def add_archive(folder: Path, jvm: SparkJvm, made: Path, files: tuple[Path, ...]) -> Archive:
    """Move the folder ``made``, with ``files`` of an archive, to its place in ``folder``, and remove old archives.

    Other processes see it whole or not at all. The caller holds ``make_folder``.
    """
    known, states, names = {}, {}, []
    for file in files:
        file.chmod(0o400)
        # Of files in ``made`` this is the name alone.
        names.append(name := os.path.relpath(file, made))
        known[name] = {"size": file.stat().st_size, "sha256": _hash(file)}
        states[name] = _state(file)
    _describe(made, {"files": known, "states": states, "jvm": json.loads(jvm.to_json())})
    place = folder / jvm.key
    shutil.rmtree(place, ignore_errors=True)  # a damaged one
    made.replace(place)
    _remove_old(folder)
    return Archive(tuple((place / name).resolve() for name in names))


def base_of(folder: Path, jvm: SparkJvm) -> Path:
    """Return the file of Java's own classes, for a Java that has none: an archive that builds on it names its place."""
    return folder / f"{jvm.key}.base.jsa"


@contextmanager
def make_folder(folder: Path) -> Iterator[Path | None]:
    """Yield an empty folder to make an archive in, None if another process makes one.

    It is removed unless it has been moved. Creates ``folder``, in which only this user can write. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder / "making.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        for left in folder.glob(f"{_MAKING}*"):
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
        made = Path(tempfile.mkdtemp(prefix=_MAKING, dir=folder))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
    finally:
        os.close(lock)


def log_of(folder: Path, jvm: SparkJvm) -> Path:
    """Return the log of the making of an archive."""
    return folder / f"{jvm.key}.log"


def _remove_old(folder: Path) -> None:
    used = {path.parent: path.stat().st_mtime for path in folder.glob(f"*/{DESCRIPTION}")}
    for old in sorted(used, key=lambda path: used[path], reverse=True)[MOST:]:
        shutil.rmtree(old, ignore_errors=True)
        for beside in folder.glob(f"{old.name}.*"):
            beside.unlink()


def _damaged(path: Path, description: Mapping[str, Any]) -> str | None:
    """Return the name of a file that is not as it was when it was made."""
    for name, known in description["files"].items():
        file = path / name
        if file.stat().st_size != known["size"] or _hash(file) != known["sha256"]:
            return str(name)
    return None


def _state(file: Path) -> list[int]:
    """Return what changes when a file is written or replaced."""
    state = file.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _describe(path: Path, description: Mapping[str, Any]) -> None:
    written = path / f"{DESCRIPTION}.{os.getpid()}"
    written.write_text(json.dumps(description, indent=2), encoding="utf-8")
    written.chmod(0o600)
    written.replace(path / DESCRIPTION)
