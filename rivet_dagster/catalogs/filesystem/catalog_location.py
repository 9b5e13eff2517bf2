"""The location of a catalog's folder on a file system of this machine, and how messages show paths in it."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, translate_read_errors
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES
from rivet_dagster.errors import RivetError
from rivet_dagster.paths import resolve_path, shown_from


class MountGuard:
    """Remembers that tables were published at ``location``, and raises if the folder is missing later.

    That is recorded in a file in the project's ``.rivet`` for other processes, and in this object for this one. It is
    not recorded for a folder inside the project's ``.rivet``, which would be lost together with its record.
    """

    def __init__(self, location: CatalogLocation) -> None:
        folder = location.root / ".rivet"
        self._location = location
        self._homes = location.folder / HOMES
        self._records = folder / "published"
        self._record = self._records / hashlib.sha256(str(location.folder).encode()).hexdigest()[:16]
        self._recorded = location.folder.is_relative_to(folder.resolve())
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


@dataclass(frozen=True)
class CatalogLocation:
    """The location of a catalog's folder; ``root`` is the project's directory."""

    root: Path
    folder: Path

    @classmethod
    def of(cls, path: str, root: Path) -> CatalogLocation:
        """Return the location that the option ``path`` names, relative to ``root``."""
        return cls(root, Path(resolve_path(path, root)))

    def shown(self, path: PurePath) -> str:
        """Return ``path`` for a message: relative to the project if it lies inside it."""
        return shown_from(self.root, path)
