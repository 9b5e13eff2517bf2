"""Refusals of what folders cannot hold: views, properties of namespaces, tables outside of their name's folder."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from rivet_dagster.catalogs.iceberg.metadata.manifests import entries_of, manifests_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewVersion


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
    own = f"{local_path(table.metadata.location)}/"
    paths = {entry.data_file.file_path for entry in entries}
    return {path for path in paths if not path.removeprefix("file:").startswith(own)}


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
