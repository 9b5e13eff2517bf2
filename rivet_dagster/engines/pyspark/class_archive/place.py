"""The folder of the archives, and whether others than this user could have written to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

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
