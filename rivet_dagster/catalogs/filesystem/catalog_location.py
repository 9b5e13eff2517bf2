"""The location of a catalog's folder, on a local file system or a remote store, and how messages show paths in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from rivet_dagster.redaction import redacted

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
    """Return whether a path is on a remote store, which only engines can access."""
    return scheme(path) not in (None, "file")


@dataclass(frozen=True)
class CatalogLocation:
    """The location of a catalog's folder; ``root`` is the project's directory.

    ``folder`` is the path on a local file system. ``remote`` is the URI of a folder on a remote store, else None; then
    ``folder`` has no meaning.
    """

    root: Path
    folder: Path
    remote: str | None = None

    @classmethod
    def of(cls, path: str, root: Path) -> CatalogLocation:
        """Return the location that the option ``path`` names, relative to ``root``."""
        if is_remote(path):
            return cls(root, root, path.rstrip("/"))
        # Links above the tables are resolved here, since engines may resolve `..` behind a link in another way.
        return cls(root, Path(os.path.realpath(root / local_path(path).expanduser())))

    def join(self, table: str) -> str:
        """Return the path or URI of ``table``, which may itself be absolute."""
        if is_remote(table):
            return table
        if self.remote and not scheme(table) and not table.startswith("/"):
            return f"{self.remote}/{table}"
        return str(self.folder / local_path(table))

    def shown(self, path: str | Path) -> str:
        """Return ``path`` for a message: relative to the project if it lies inside it, and without secrets."""
        if is_remote(str(path)):
            return redacted(str(path))
        relative = os.path.relpath(path, os.path.realpath(self.root))
        return str(path) if relative.startswith("..") else relative


def local_path(path: str) -> Path:
    """Return a plain path or a ``file:`` URI as a path.

    >>> local_path("file:///data/my%20files")
    PosixPath('/data/my files')
    """
    return Path(unquote(_FILE_URI.sub("", path))) if scheme(path) == "file" else Path(path)
