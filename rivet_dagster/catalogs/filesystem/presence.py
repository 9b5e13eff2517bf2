"""Whether something exists: only the answer "does not exist" means that it does not, any other failure is an error.

``Path.exists``, ``os.path.exists`` and ``glob.glob`` answer "no" to some failures, which of them depends on Python's
version; a table that cannot be looked up for a moment must never look like one that has yet to be published.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rivet_dagster.errors import RivetError

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Answers of a file system where nothing has, or can have, the name."""

_REMEDY = "Give this user the right to read there, or look after that file system."


@contextmanager
def looking(shown: str | Path, verb: str = "looked up") -> Iterator[None]:
    """Turn an OSError of the block, which looks for what a message calls ``shown``, into RVT-403."""
    try:
        yield
    except OSError as error:
        message = f"{shown} cannot be {verb}: {error.strerror or error}"
        raise RivetError("RVT-403", message, remediation=_REMEDY) from error


def status(path: Path, *, follow: bool = True) -> os.stat_result | None:
    """The status of a file or folder, of a link itself unless ``follow``; None where there is none. Raises OSError."""
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise


def exists(path: Path, *, follow: bool = True) -> bool:
    """Whether there is something; a link counts as what it leads to unless ``follow`` is false. Raises OSError.

    >>> exists(Path("/")), exists(Path("/nothing/here"))
    (True, False)
    """
    return status(path, follow=follow) is not None


def is_folder(path: Path) -> bool:
    """Whether there is a folder, or a link to one. Raises OSError."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_link(path: Path) -> bool:
    """Whether there is a symbolic link. Raises OSError."""
    found = status(path, follow=False)
    return found is not None and stat.S_ISLNK(found.st_mode)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, in order; none where there is no such folder. Raises OSError."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if error.errno in MISSING:
            return []
        raise
