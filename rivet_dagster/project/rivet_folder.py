"""The folders for the package's own files: ``.rivet``, in a project and in a catalog's directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NAME = ".rivet"


def make_rivet_folder(folder: Path) -> None:
    """Create ``folder``, which is or is inside a ``.rivet``, and have git ignore every such folder. Raise OSError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as project:
    ...     make_rivet_folder(Path(project) / ".rivet/cache")
    ...     (Path(project) / ".rivet/.gitignore").read_text()
    '*\\n'
    """
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder, *folder.parents):
        if parent.name == NAME:
            keep_out_of_git(parent)


def keep_out_of_git(folder: Path) -> None:
    """Have git ignore everything in ``folder``. A ``.gitignore`` that exists and is not empty stays unchanged.

    The folder can be used without one, so a failure to write it is ignored.
    """
    ignore = folder / ".gitignore"
    with suppress(OSError):
        # An empty one was left by a process that was killed before it wrote the line.
        if not os.path.lexists(ignore) or ignore.stat().st_size == 0:
            ignore.write_text("*\n", "utf-8")
