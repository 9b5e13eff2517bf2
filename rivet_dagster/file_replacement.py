"""Writing a file in one step, durably: readers see its old content or the new one, also after a loss of power."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, unfinished: Path, like: os.stat_result | None = None) -> None:
    """Replace a file, or make it, in one step. Raises OSError.

    ``unfinished`` is the file in the same folder that is written before; an interrupt removes it. Only this user can
    read the new file if ``unfinished`` exists with such rights. With ``like`` it gets that mode and, where possible,
    that owner.
    """
    try:
        with open(unfinished, "wb") as file:
            if like is not None:
                with suppress(PermissionError):  # the owner can only be kept by the owner, or the administrator
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), like.st_mode & 0o7777)
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
