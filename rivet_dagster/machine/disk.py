"""The free space of a file system, and whether a folder can be written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from rivet_dagster.model.finding import Finding, doubtful

LITTLE = 2**30
"""The bytes below which free space is little: a version is staged beside the one that readers see."""

_REMEDY = "Free space on that file system, or take a folder on another one."


def free_space(folder: Path) -> int:
    """Return the bytes that this user can still write where ``folder`` is or will be; 0 if no file can be created.

    Raises OSError.
    """
    status = os.statvfs(_existing(folder))
    # Some file systems do not count files.
    return 0 if status.f_files and not status.f_favail else status.f_bavail * status.f_frsize


def amount(number: int) -> str:
    """Return a number of bytes as text.

    >>> amount(5 * 2**30), amount(300 * 2**20)
    ('5.0 GiB', '300 MiB')
    """
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number // 2**20} MiB"


def little_space(subject: str, folder: Path, shown: str) -> Iterator[Finding]:
    """Yield a warning if there is little space where ``folder`` is or will be. Raises OSError."""
    free = free_space(folder)
    if free < LITTLE:
        yield doubtful(subject, f"{shown}: only {amount(free)} free", _REMEDY)


def try_to_write(folder: Path) -> None:
    """Create a file where ``folder`` is or will be, and remove it again. Raises OSError."""
    with TemporaryDirectory(prefix=".rivet-doctor-", dir=_existing(folder)) as name:
        Path(name, "file").write_bytes(b"x")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))
