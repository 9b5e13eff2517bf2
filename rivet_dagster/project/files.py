"""Which files below a folder are read: neither hidden nor beginning with ``_``, in a fixed order."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection
from pathlib import Path

from rivet_dagster.errors import RivetError


def files(root: Path, folder: str, extensions: tuple[str, ...], without: Collection[str] = ()) -> list[str]:
    """The files of some extensions below ``folder``, relative to ``root``, sorted folder by folder.

    Folders in ``without`` are left out. Links are followed, but no folder is read twice, nor one that the link lies in.
    """
    found: list[str] = []
    seen: set[str] = set()
    waiting, linked = [folder], list[str]()  # folders themselves come before links to them
    while waiting or linked:
        current = waiting.pop() if waiting else linked.pop()
        real = os.path.realpath(root / current)
        if real in seen or os.path.realpath((root / current).parent).startswith(os.path.join(real, "")):
            continue
        seen.add(real)
        for name in _entries(root / current):
            path = posixpath.join(current, name)
            if name.startswith((".", "_")) or path in without:
                continue
            if os.path.isdir(root / path):
                (linked if os.path.islink(root / path) else waiting).append(path)
            elif name.lower().endswith(extensions) and (os.path.isfile(root / path) or os.path.islink(root / path)):
                found.append(path)
    return sorted(found, key=lambda path: path.split("/"))


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder), reverse=True)
    except OSError as error:
        raise RivetError("RVT-108", f"the folder {folder} cannot be read: {error.strerror}") from None
