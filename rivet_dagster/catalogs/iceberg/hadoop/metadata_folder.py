"""The metadata folder of a table of a hadoop catalog: one file a version, ``v3.metadata.json``, and a hint."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rivet_dagster.file_replacement import replace_file, sync

_PLAIN, _COMPRESSED = ".metadata.json", ".gz.metadata.json"
_ENDINGS = (_PLAIN, _COMPRESSED, ".metadata.json.gz")
_NAME = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HINT, _CHECKSUM = "version-hint.text", ".version-hint.text.crc"


class VersionExistsError(Exception):
    """Another writer has created the version."""


@dataclass(frozen=True)
class MetadataFolder:
    """The metadata folder of a table, which need not exist."""

    path: Path

    def is_of_table(self) -> bool:
        """Return whether it holds the metadata of a table."""
        return any(name.endswith(_PLAIN) for name in self._names()) or self.current() is not None

    def current(self) -> tuple[int, Path] | None:
        """Return the newest version and its file; None if there is no table.

        The hint may be missing, or older than the newest version: then the files themselves tell.
        """
        version = self._hinted()
        if version is None or self._file(version) is None:
            version = self._newest_listed()
        file = self._file(version)
        if file is None:
            return None
        while newer := self._file(version + 1):
            version, file = version + 1, newer
        return version, file

    def version_of(self, location: str) -> int:
        """Return the version of a metadata file."""
        name = _NAME.fullmatch(location.rpartition("/")[2])
        assert name is not None, location
        return int(name[1])

    def create(self, version: int, content: bytes, compressed: bool) -> str:
        """Write a version durably, on top of the one before, and return the name of its file.

        Raises VersionExistsError.
        """
        name = f"v{version}{_COMPRESSED if compressed else _PLAIN}"
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self._written(content)
        try:
            # Where versions are removed after some time, the name of one that was overtaken may be free again.
            newest = self.current()
            if (newest[0] if newest else 0) != version - 1:
                raise VersionExistsError(name)
            os.link(temporary, self.path / name)
        except FileExistsError as error:
            raise VersionExistsError(name) from error
        finally:
            temporary.unlink()
        sync(self.path)
        self._hint(version)
        return name

    def _hint(self, version: int) -> None:
        """Write the hint, unless it is newer. Readers do without it, so the version stands if that fails."""
        if (self._hinted() or 0) >= version:
            return
        with suppress(OSError):
            replace_file(self.path / _HINT, str(version).encode(), self.path / f"{uuid4()}.tmp")
            # Hadoop's checksum of the file that was replaced
            (self.path / _CHECKSUM).unlink(missing_ok=True)

    def _hinted(self) -> int | None:
        try:
            return int((self.path / _HINT).read_text().strip())
        except (OSError, ValueError):
            return None

    def _newest_listed(self) -> int:
        versions = (_NAME.fullmatch(name) for name in self._names())
        return max((int(version[1]) for version in versions if version), default=0)

    def _file(self, version: int) -> Path | None:
        paths = (self.path / f"v{version}{ending}" for ending in _ENDINGS)
        return next((path for path in paths if path.is_file()), None)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _written(self, content: bytes) -> Path:
        path = self.path / f"{uuid4()}.tmp"
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return path
