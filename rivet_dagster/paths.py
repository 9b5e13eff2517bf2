"""Paths and URIs that options of a profile name: which of them are on this machine, and where.

The folders for the package's own files are ``.rivet``, in a project and in a catalog's directory.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE_URI = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)


def scheme(path: str) -> str | None:
    """Return the scheme of a URI, None for a plain path.

    >>> scheme("s3://bucket/raw"), scheme("file:///raw"), scheme("raw/2024")
    ('s3', 'file', None)
    """
    match = _SCHEME.match(path)
    return match[1].lower() if match else None


def is_remote(path: str) -> bool:
    """Return whether a path is in a store, and not on a file system of this machine."""
    return scheme(path) not in (None, "file")


def local_path(path: str) -> Path:
    """Return a plain path or a ``file:`` URI as a path.

    >>> local_path("file:///data/my%20files")
    PosixPath('/data/my files')
    """
    return Path(unquote(_FILE_URI.sub("", path))) if scheme(path) == "file" else Path(path)


def resolve_path(path: str, root: Path) -> str:
    """Return a path or a ``file:`` URI, which may be relative to ``root``, as an absolute path without links.

    Links are resolved here, since those who read the path may resolve ``..`` behind a link in another way.
    """
    return os.path.realpath(root / local_path(path).expanduser())


def absolute_paths(value: Any, root: Path) -> Any:
    """Return a path that may be relative to ``root``, or each of a list, as an absolute one; a URI stays as it is.

    >>> absolute_paths(["a.jar", "s3://jars/b.jar"], Path("/project"))
    ['/project/a.jar', 's3://jars/b.jar']
    """
    if isinstance(value, list | tuple):
        return [absolute_paths(part, root) for part in value]
    if not isinstance(value, str) or _URI.match(value):
        return value
    return os.path.abspath(root / Path(value).expanduser())


def shown_from(root: Path, path: PurePath) -> str:
    """Return ``path`` for a message: relative to ``root`` if it lies inside it, else as it is."""
    relative = os.path.relpath(path, os.path.realpath(root))
    return str(path) if relative.startswith("..") else relative


RIVET_FOLDER = ".rivet"


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
        if parent.name == RIVET_FOLDER:
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
