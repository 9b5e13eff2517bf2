"""Whether a catalog's folder, where tables were published, is still there: an unmounted disk must not look empty."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from rivet_dagster.catalogs.filesystem.layout import HOMES
from rivet_dagster.catalogs.filesystem.place import Place
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, looking
from rivet_dagster.errors import RivetError


class Whereabouts:
    """Knowledge of the folder at ``place``: in the project's ``.rivet`` for all runs, and in here for this one.

    A folder within the project's ``.rivet`` goes with what is known of it, so nothing is.
    """

    def __init__(self, place: Place) -> None:
        own = place.root / ".rivet"
        self._place = place
        self._homes = place.folder / HOMES
        self._notes = own / "published"
        self._note = self._notes / hashlib.sha256(str(place.folder).encode()).hexdigest()[:16]
        self._noted = place.folder.is_relative_to(own.resolve())
        self._seen = False

    def require(self) -> None:
        """Raise RVT-403 where tables were published and their folder is not there any more."""
        shown = self._place.shown(self._place.folder)
        with looking(shown):
            if is_folder(self._homes):
                self._seen = True
            elif self._seen or exists(self._note):
                message = f"{shown} is gone, where this project has published tables"
                remedy = f"Mount it again; to begin anew there: mkdir -p {self._homes}"
                raise RivetError("RVT-403", message, remediation=remedy)

    def note(self) -> None:
        """Remember that tables are published there; a project without a ``.rivet``, or a read-only one, does not."""
        if self._noted:
            return
        with suppress(OSError):
            if is_folder(self._notes.parent) and not exists(self._note):
                self._notes.mkdir(exist_ok=True)
                self._note.write_text(f"{self._place.folder}\n", encoding="utf-8")
            self._noted = True
