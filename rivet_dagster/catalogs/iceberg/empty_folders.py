"""The folders that are left where a table was to be made, on file systems that have folders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def remove_empty_folders(location: str) -> None:
    """Remove the folders below the ``location`` of a table that has no metadata, as far as there are no files in it.

    Do nothing for other storage than a file system of this machine.
    """
    if not location.startswith(("file:", "/")):
        return
    folder = Path("/" + location.removeprefix("file:").lstrip("/"))
    metadata = folder / "metadata"
    with suppress(OSError):  # there are files in it
        if metadata.exists():
            metadata.rmdir()
        for path, _, _ in os.walk(folder, topdown=False):
            os.rmdir(path)
