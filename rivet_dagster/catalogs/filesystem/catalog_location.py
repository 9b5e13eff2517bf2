"""The location of a catalog's folder on a file system of this machine, and how messages show paths in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

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


@dataclass(frozen=True)
class CatalogLocation:
    """The location of a catalog's folder; ``root`` is the project's directory."""

    root: Path
    folder: Path

    @classmethod
    def of(cls, path: str, root: Path) -> CatalogLocation:
        """Return the location that the option ``path`` names, relative to ``root``."""
        # Links above the tables are resolved here, since engines may resolve `..` behind a link in another way.
        return cls(root, Path(os.path.realpath(root / local_path(path).expanduser())))

    def shown(self, path: PurePath) -> str:
        """Return ``path`` for a message: relative to the project if it lies inside it."""
        return shown_from(self.root, path)


def shown_from(root: Path, path: PurePath) -> str:
    """Return ``path`` relative to ``root`` if it lies inside it, else as it is."""
    relative = os.path.relpath(path, os.path.realpath(root))
    return str(path) if relative.startswith("..") else relative


def local_path(path: str) -> Path:
    """Return a plain path or a ``file:`` URI as a path.

    >>> local_path("file:///data/my%20files")
    PosixPath('/data/my files')
    """
    return Path(unquote(_FILE_URI.sub("", path))) if scheme(path) == "file" else Path(path)
