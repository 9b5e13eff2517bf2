"""Writing a file in one step, durably: readers see its old content or the new one, also after a loss of power.

Two paths, of files, folders or links, are exchanged in one step, too.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes | Iterable[bytes], unfinished: Path, mode: int = 0o666) -> None:
    """Replace a file, or make it, in one step. Raises OSError.

    ``content`` may come in parts. ``unfinished`` is the file in the same folder that is written before; an interrupt
    removes it. ``mode`` is that of the new file, less what the process masks.
    """
    _replace(path, [content] if isinstance(content, bytes) else content, unfinished, mode, None)


def replace_like(path: Path, content: bytes, unfinished: Path, status: os.stat_result) -> None:
    """Do what ``replace_file`` does, and give the new file the mode of ``status`` and, where possible, its owner."""
    _replace(path, [content], unfinished, 0o600, status)


def _replace(path: Path, parts: Iterable[bytes], unfinished: Path, mode: int, status: os.stat_result | None) -> None:
    try:
        with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            if status is not None:
                with suppress(PermissionError):  # the owner can only be kept by the owner, or the administrator
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
            file.writelines(parts)
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


_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""
_HERE = -100
"""AT_FDCWD: relative paths begin at the working directory."""


def exchange(path: Path, other: Path) -> None:
    """Exchange what two paths of one file system lead to, in one step. Raises OSError.

    Its number is ENOTSUP where the system, or the file system, cannot.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    one, another = os.fsencode(path), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(one, another, ctypes.c_uint(_EXCHANGE))
        else:
            failed = library.renameat2(_HERE, one, _HERE, another, ctypes.c_uint(_EXCHANGE))
    except AttributeError:  # the C library has no such function
        failed, number = True, errno.ENOTSUP
    else:
        number = ctypes.get_errno()
    if failed:
        number = errno.ENOTSUP if number in (errno.EINVAL, errno.ENOSYS) else number
        raise OSError(number, os.strerror(number), str(path), None, str(other))
