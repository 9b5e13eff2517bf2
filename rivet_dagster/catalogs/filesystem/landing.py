"""Landing zones: directories and globs whose files are told apart, read one by one and moved away."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.landing import LandingZone
from rivet_dagster.catalogs.filesystem.formats import chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.listing import described, listed, require_folder
from rivet_dagster.catalogs.filesystem.place import Place, is_remote
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder
from rivet_dagster.catalogs.filesystem.sources import existing, fixed_folder, is_glob, matches
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files

ARCHIVE = "_archive"
"""The folder beside the files that they are moved to; engines pass over it, and so do we."""

_SHOWN = 3


@dataclass(frozen=True)
class FilesystemLandingZone(LandingZone):
    """The files at and below a directory, or of whatever a glob matches.

    Files come best by being renamed into it: one that is still being written is read as far as it is, and once more
    when it has grown.
    """

    place: Place
    table: str
    default_format: str
    options: Mapping[str, Any]

    def files(self) -> tuple[LandedFile, ...]:
        """All files but hidden ones and those whose names, or whose folders' names, begin with ``_``."""
        return listed(self.place, self.table, self._roots)

    def relation(self, files: Sequence[LandedFile]) -> Files:
        """The files by name; below a directory, its partition folders give their columns."""
        example = Path(files[0].path).name if files else self.table
        format = chosen_format(self.options) or format_of(self.table) or format_of(example) or self.default_format
        options = reader_options(format, example, self.options)
        folder = existing(Path(self.place.join(self.table)))
        if folder and "basepath" not in {key.lower() for key in options}:
            options["basePath"] = f"file://{folder[0]}"
        return Files(format, tuple(str(self._path(file)) for file in files), options)

    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move them to ``_archive/<name>`` beside them."""
        failed = []
        for file in files:
            try:
                self._archive(file, name)
            except OSError as error:
                failed.append(f"{self.place.shown(self._path(file))}: {error.strerror or error}")
        if failed:
            more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
            raise RivetError("RVT-410", f"cannot archive {'; '.join(failed[:_SHOWN])}{more}")

    def _archive(self, file: LandedFile, name: str) -> None:
        path = self._path(file)
        if described(self.place, path) != file:
            return
        target = path.parent / ARCHIVE / name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if exists(target, follow=False):
            raise FileExistsError(f"{self.place.shown(target)} exists already")
        linked = os.path.realpath(path) if path.is_symlink() else None
        try:
            os.rename(path, target)
        except FileNotFoundError:
            return  # another run has moved it
        if linked is not None and target.is_symlink():
            # From its new place a relative link would lead elsewhere.
            target.unlink()
            target.symlink_to(linked)
        # Who looks before a move may find one file and move the next: only what has been moved can be told for sure.
        if described(self.place, target, path) != file:
            os.link(target, path)  # refused where one more has come under that name
            target.unlink()

    def _roots(self) -> tuple[Path, ...]:
        """The directory, or all that the glob matches."""
        if is_remote(self.place.join(self.table)):
            raise RivetError("RVT-321", f"only the engine can look into {self._shown()}")
        written = Path(self.place.join(self.table))
        if is_folder(written):
            return existing(written)
        if exists(written):
            message = f"{self._shown()} is a file: a landing zone is a directory or a glob"
            raise RivetError("RVT-321", message)
        folder = fixed_folder(self.place, self.table) if is_glob(self.table) else written
        require_folder(self.place, folder)
        found = matches(self.place, self.table, all_parts=True)
        return tuple(root for path in found for root in existing(path))

    def _shown(self) -> str:
        return self.place.shown(self.place.join(self.table))

    def _path(self, file: LandedFile) -> Path:
        return self.place.folder / file.path
