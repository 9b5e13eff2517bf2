"""The folders in which the product keeps its own files: ``.rivet``, in a project and in a catalog's directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NAME = ".rivet"


def make_own_folder(folder: Path) -> None:
    """Make ``folder``, which is a ``.rivet`` or lies below one, and keep all of these out of git. Raises OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as project:
    ...     make_own_folder(Path(project) / ".rivet/cache")
    ...     (Path(project) / ".rivet/.gitignore").read_text()
    '*\\n'
    """
    folder.mkdir(parents=True, exist_ok=True)
    for own in (folder, *folder.parents):
        if own.name == NAME:
            keep_out_of_git(own)


def keep_out_of_git(folder: Path) -> None:
    """Have git ignore all that is in ``folder``. A ``.gitignore`` that is there, and not empty, stays as it is.

    The folder serves without one, so nothing happens where it cannot be written.
    """
    ignore = folder / ".gitignore"
    with suppress(OSError):
        # An empty one is that of a process that was killed before it had written its line.
        if not os.path.lexists(ignore) or ignore.stat().st_size == 0:
            ignore.write_text("*\n", "utf-8")
