"""The location of a catalog's folder on a file system of this machine, and how messages show paths in it."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, translate_read_errors
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES
from rivet_dagster.errors import RivetError


class MountGuard:
    """Remembers that tables were published at ``location``, and raises if the folder is missing later.

    That is recorded in a file in the project's ``.rivet`` for other processes, and in this object for this one. It is
    not recorded for a folder inside the project's ``.rivet``, which would be lost together with its record.
    """

    def __init__(self, location: CatalogLocation) -> None:
        own = location.root / ".rivet"
        self._location = location
        self._homes = location.folder / HOMES
        self._records = own / "published"
        self._record = self._records / hashlib.sha256(str(location.folder).encode()).hexdigest()[:16]
        self._recorded = location.folder.is_relative_to(own.resolve())
        self._seen = False

    def check(self) -> None:
        """Raise RVT-403 if tables were published here and their folder does not exist any more."""
        shown = self._location.shown(self._location.folder)
        with translate_read_errors(shown):
            if is_folder(self._homes):
                self._seen = True
            elif self._seen or exists(self._record):
                message = f"{shown} is gone, where this project has published tables"
                remedy = f"Mount it again; to begin anew there: mkdir -p {self._homes}"
                raise RivetError("RVT-403", message, remediation=remedy)

    def remember(self) -> None:
        """Record that tables are published here; a project without a ``.rivet``, or a read-only one, has no record."""
        if self._recorded:
            return
        with suppress(OSError):
            if is_folder(self._records.parent) and not exists(self._record):
                self._records.mkdir(exist_ok=True)
                self._record.write_text(f"{self._location.folder}\n", encoding="utf-8")
            self._recorded = True


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
