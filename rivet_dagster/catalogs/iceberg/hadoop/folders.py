"""The folders of a hadoop catalog: what they cannot hold, and the metadata folder of a table.

That has one file a version, ``v3.metadata.json``, and a hint. Views, properties of namespaces, and tables outside of
the folder of their name are refused.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, manifests_of
from rivet_dagster.file_replacement import replace_file, sync

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewVersion


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


class CatalogOfFolders(MetastoreCatalog):
    """A catalog of PyIceberg in which these methods raise NotImplementedError."""

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Raise NotImplementedError."""
        raise NotImplementedError("a namespace of a hadoop catalog is a folder and has no properties")

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Raise NotImplementedError."""
        raise NotImplementedError("a hadoop catalog cannot register a table: tables are the folders below it")

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Raise NotImplementedError."""
        raise NotImplementedError("a hadoop catalog cannot rename a table, whose metadata names its folder")

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Raise NotImplementedError."""
        _no_views()

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Raise NotImplementedError."""
        _no_views()

    def load_view(self, identifier: str | Identifier) -> View:
        """Raise NotImplementedError."""
        _no_views()

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Raise NotImplementedError."""
        _no_views()

    def drop_view(self, identifier: str | Identifier) -> None:
        """Raise NotImplementedError."""
        _no_views()

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        """Raise NotImplementedError."""
        _no_views()


def _no_views() -> NoReturn:
    raise NotImplementedError("a hadoop catalog has no views")


def local_path(location: str) -> Path:
    """Return the path of a location, which Hadoop does not decode. Raises ValueError."""
    path = location.removeprefix("file:")
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    if not path.startswith("/"):
        raise ValueError(f"the warehouse of a hadoop catalog is an absolute path of this machine, not {location!r}")
    return Path(path)


def refuse_other_files(folder: Path) -> None:
    """Raise TableAlreadyExistsError for a file, and for a folder with files, which tables only have further below."""
    try:
        with os.scandir(folder) as entries:
            files = sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        files = [folder.name]
    if files:
        raise TableAlreadyExistsError(f"there is something else in its place, with the file {files[0]}")


def files_elsewhere(table: Table) -> set[str]:
    """Return the paths of the data and delete files of all snapshots that do not lie in the table's folder."""
    manifests = {manifest for snapshot in table.metadata.snapshots for manifest in manifests_of(snapshot, table.io)}
    entries = (entry for manifest in manifests for entry in entries_of(manifest, table.io))
    folder = f"{local_path(table.metadata.location)}/"
    paths = {entry.data_file.file_path for entry in entries}
    return {path for path in paths if not path.removeprefix("file:").startswith(folder)}


def delete_file(io: FileIO, path: str) -> None:
    """Delete a file, if it exists."""
    with suppress(FileNotFoundError):  # a file that only an older snapshot has may be gone
        io.delete(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder, maybe while another process does so, too."""

    def failed(function: Any, path: str, error: Any) -> None:
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    shutil.rmtree(folder, onerror=failed)
