"""Landing zones: directories and globs whose files are tracked, read and archived one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.landing import LandingZone
from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation, is_remote
from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder
from rivet_dagster.catalogs.filesystem.sources.formats import chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.sources.listing import described, listed, require_folder
from rivet_dagster.catalogs.filesystem.sources.table_files import existing, fixed_folder, is_glob, matches
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files

ARCHIVE = "_archive"
"""The folder beside the files to which they are archived; engines ignore it, and so does this catalog."""

_SHOWN = 3


@dataclass(frozen=True)
class FilesystemLandingZone(LandingZone):
    """The files below a directory, or the files and folders that a glob matches.

    Writers should rename finished files into it: a file that is still being written is read as far as it goes, and
    read again as a whole when it has grown.
    """

    location: CatalogLocation
    table: str
    default_format: str
    options: Mapping[str, Any]

    def files(self) -> tuple[LandedFile, ...]:
        """Return all files but hidden ones and those whose names, or whose folders' names, begin with ``_``."""
        return listed(self.location, self.table, self._roots)

    def relation(self, files: Sequence[LandedFile]) -> Files:
        """Return a relation that lists the files; partition folders below a directory become columns."""
        example = Path(files[0].path).name if files else self.table
        format = chosen_format(self.options) or format_of(self.table) or format_of(example) or self.default_format
        options = reader_options(format, example, self.options)
        folder = existing(Path(self.location.join(self.table)))
        if folder and "basepath" not in {key.lower() for key in options}:
            options["basePath"] = f"file://{folder[0]}"
        return Files(format, tuple(str(self._path(file)) for file in files), options)

    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move files to ``_archive/<name>`` beside them."""
        failed = []
        for file in files:
            try:
                self._archive(file, name)
            except OSError as error:
                failed.append(f"{self.location.shown(self._path(file))}: {error.strerror or error}")
        if failed:
            more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
            raise RivetError("RVT-410", f"cannot archive {'; '.join(failed[:_SHOWN])}{more}")

    def _archive(self, file: LandedFile, name: str) -> None:
        path = self._path(file)
        if described(self.location, path) != file:
            return
        target = path.parent / ARCHIVE / name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if exists(target, follow=False):
            raise FileExistsError(f"{self.location.shown(target)} exists already")
        linked = os.path.realpath(path) if path.is_symlink() else None
        try:
            os.rename(path, target)
        except FileNotFoundError:
            return  # another run has moved it
        if linked is not None and target.is_symlink():
            # A relative link would have another target at its new path.
            target.unlink()
            target.symlink_to(linked)
        # Another file may have replaced it between the check and the rename: only after the rename is it certain.
        if described(self.location, target, path) != file:
            os.link(target, path)  # fails if yet another file has that name by now
            target.unlink()

    def _roots(self) -> tuple[Path, ...]:
        """Return the directory, or all matches of the glob."""
        if is_remote(self.location.join(self.table)):
            raise RivetError("RVT-321", f"only the engine can look into {self._shown()}")
        path = Path(self.location.join(self.table))
        if is_folder(path):
            return existing(path)
        if exists(path):
            message = f"{self._shown()} is a file: a landing zone is a directory or a glob"
            raise RivetError("RVT-321", message)
        folder = fixed_folder(self.location, self.table) if is_glob(self.table) else path
        require_folder(self.location, folder)
        return tuple(root for match in matches(self.location, self.table, all_parts=True) for root in existing(match))

    def _shown(self) -> str:
        return self.location.shown(self.location.join(self.table))

    def _path(self, file: LandedFile) -> Path:
        return self.location.folder / file.path
