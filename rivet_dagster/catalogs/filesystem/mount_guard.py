"""A check that a catalog's folder has not disappeared: an unmounted disk must not look like an empty catalog."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation
from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, looking
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
        with looking(shown):
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
