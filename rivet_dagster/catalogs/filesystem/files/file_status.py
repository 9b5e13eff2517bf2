"""Whether files and folders exist, and the errors of looking them up and of writing them.

Anything but the answer "does not exist" of the file system is an error.
``Path.exists``, ``os.path.exists`` and ``glob.glob`` also answer "no" after some other failures, depending on Python's
version; but a table that cannot be looked up for a moment must not be mistaken for one that was never published. Nor is
a JSON file of the catalog that is damaged one that is missing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from rivet_dagster.errors import RivetError

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Error numbers of a file system when nothing has, or can have, the name."""

REMEDY = "Give this user the right to read there, or look after that file system."
"""The remedy for a failed lookup."""


@contextmanager
def translate_read_errors(shown: str | PurePath, verb: str = "looked up") -> Iterator[None]:
    """Turn an OSError of the block, which looks up the path ``shown`` in the message, into RVT-403."""
    try:
        yield
    except OSError as error:
        message = f"{shown} cannot be {verb}: {error.strerror or error}"
        raise RivetError("RVT-403", message, remediation=REMEDY) from error


def status(path: PurePath, *, follow: bool = True) -> os.stat_result | None:
    """Return the status of a path, of a link itself unless ``follow``; None if it does not exist. Raises OSError."""
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise


def exists(path: PurePath, *, follow: bool = True) -> bool:
    """Return whether a path exists; without ``follow`` a broken link does, too. Raises OSError.

    >>> exists(PurePath("/")), exists(PurePath("/nothing/here"))
    (True, False)
    """
    return status(path, follow=follow) is not None


def is_folder(path: PurePath) -> bool:
    """Return whether there is a folder, or a link to one. Raises OSError."""
    result = status(path)
    return result is not None and stat.S_ISDIR(result.st_mode)


def is_link(path: PurePath) -> bool:
    """Return whether there is a symbolic link. Raises OSError."""
    result = status(path, follow=False)
    return result is not None and stat.S_ISLNK(result.st_mode)


def names_in(folder: PurePath) -> list[str]:
    """Return the names in a folder, in order; none if the folder does not exist. Raises OSError."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if error.errno in MISSING:
            return []
        raise


@contextmanager
def damage(file: Path, remedy: str) -> Iterator[None]:
    """Turn errors of the block, which parses the JSON in ``file``, into RVT-407 with ``remedy`` as remediation.

    >>> with damage(Path("orders.json"), "Move it away."):
    ...     {}["version"]
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-407 orders.json is damaged: KeyError('version')
        Move it away.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RivetError("RVT-407", f"{file} is damaged: {error!r}", remediation=remedy) from error


_RIGHTS = "Give this user the right to write there, or the catalog another `path`."
_SPACE = "Free space on that file system, or give the catalog another `path`."
_REMEDIES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EIO: "Look after that file system, then run it again.",
    errno.ESTALE: "Look after that file system, then run it again.",
}


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block, which writes to ``path``, into RVT-404.

    >>> with translate_write_errors(Path("/warehouse")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    rivet_dagster.errors.NotWritable: RVT-404 cannot write to /warehouse: No space left on device
        Free space on that file system, or give the catalog another `path`.
    """
    try:
        yield
    except OSError as error:
        message = f"cannot write to {path}: {error.strerror or error}"
        raise RivetError("RVT-404", message, remediation=_REMEDIES.get(error.errno or 0)) from error
