"""The files below a folder that are read: neither hidden nor with a leading ``_``, in a fixed order."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection
from pathlib import Path

from rivet_dagster.errors import RivetError


def files(root: Path, folder: str, extensions: tuple[str, ...], without: Collection[str] = ()) -> list[str]:
    """Return the files with some extensions below ``folder``, relative to ``root``, sorted folder by folder.

    Folders in ``without`` are left out. Links are followed, but no folder is read twice, nor one that contains the
    link.
    """
    paths: list[str] = []
    seen: set[str] = set()
    waiting, linked = [folder], list[str]()  # real folders are read before links to them
    while waiting or linked:
        current = waiting.pop() if waiting else linked.pop()
        real = os.path.realpath(root / current)
        if real in seen or os.path.realpath((root / current).parent).startswith(os.path.join(real, "")):
            continue
        seen.add(real)
        for entry in _entries(root / current):
            path = posixpath.join(current, entry.name)
            if entry.name.startswith((".", "_")) or path in without:
                continue
            is_link = entry.is_symlink()
            if os.path.isdir(entry.path) if is_link else entry.is_dir():
                (linked if is_link else waiting).append(path)
            elif entry.name.lower().endswith(extensions) and (is_link or entry.is_file()):
                paths.append(path)
    return sorted(paths, key=lambda path: path.split("/"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError as error:
        raise RivetError("RVT-108", f"the folder {folder} cannot be read: {error.strerror}") from None
