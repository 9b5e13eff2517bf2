"""Writing a file in one step, durably: readers see its old content or the new one, also after a loss of power."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, unfinished: Path, mode: int = 0o666) -> None:
    """Replace a file, or make it, in one step. Raises OSError.

    ``unfinished`` is the file in the same folder that is written before; an interrupt removes it. ``mode`` is that of
    the new file, less what the process masks.
    """
    _replace(path, content, unfinished, mode, None)


def replace_like(path: Path, content: bytes, unfinished: Path, status: os.stat_result) -> None:
    """Do what ``replace_file`` does, and give the new file the mode of ``status`` and, where possible, its owner."""
    _replace(path, content, unfinished, 0o600, status)


def _replace(path: Path, content: bytes, unfinished: Path, mode: int, status: os.stat_result | None) -> None:
    try:
        with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            if status is not None:
                with suppress(PermissionError):  # the owner can only be kept by the owner, or the administrator
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Make the content of a file or folder durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
