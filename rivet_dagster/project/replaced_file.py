"""Replacing the content of a file that people edit, in one step: a failed write leaves the old file whole."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from rivet_dagster.errors import RivetError

_REMEDY = "Free space, or give this user the right to write in that folder; the file is as it was."


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of an existing file, and keep its mode and, where possible, its owner.

    Of a symbolic link the file that it leads to is replaced. Raises RVT-108 if that cannot be written.
    """
    target = path.resolve()
    try:
        _replace(target, content)
    except OSError as error:
        raise RivetError("RVT-108", f"cannot write {path}: {error.strerror}", remediation=_REMEDY) from error


def _replace(target: Path, content: bytes) -> None:
    status = target.stat()
    number, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(number, "wb") as file:
            with suppress(PermissionError):  # the owner can only be kept by the owner, or the administrator
                os.fchown(number, status.st_uid, status.st_gid)
            os.fchmod(number, status.st_mode & 0o7777)
            file.write(content)
            file.flush()
            os.fsync(number)
        os.replace(unfinished, target)
    except BaseException:
        os.unlink(unfinished)
        raise
