"""Iceberg's catalog of the kind ``hadoop``: tables are folders below a warehouse, on a path of this machine.

The rules are those of HadoopCatalog and HadoopTableOperations in Iceberg's Java library, so that both can read the same
tables and commit to them.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from rivet_dagster.catalogs.iceberg.commits.committing import CommitRefusedError
from rivet_dagster.catalogs.iceberg.hadoop.folders import (
    CatalogOfFolders,
    MetadataFolder,
    VersionExistsError,
    delete_file,
    files_elsewhere,
    local_path,
    refuse_other_files,
    remove_tree,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableRequirement, TableUpdate

_DROPPED = ".dropped-"
_CODEC = "write.metadata.compression-codec"
_METADATA_PATH = "write.metadata.path"


class HadoopCatalog(CatalogOfFolders):
    """The tables of a warehouse on a POSIX path of this machine, given by the property ``warehouse``.

    Namespaces are folders, and may be nested. A commit creates the next metadata file by a hard link, which succeeds
    for one of several writers; the others get CommitFailedException.
    """

    def __init__(self, name: str, **properties: str) -> None:
        """Take the properties of the catalog. Raises ValueError for a warehouse that is no absolute local path."""
        super().__init__(name, **properties)
        self._warehouse = properties.get("warehouse", "").rstrip("/")
        self.folder = local_path(self._warehouse)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create a table, and its namespace if there is none. Raises TableAlreadyExistsError."""
        if self.table_exists(identifier):
            raise TableAlreadyExistsError(f"Table already exists: {_dotted(identifier)}")
        args = (identifier, schema, location, partition_spec, sort_order, properties)
        try:
            return self.create_table_transaction(*args).commit_transaction()
        except CommitFailedException as error:
            raise TableAlreadyExistsError(f"Table already exists: {_dotted(identifier)}") from error

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table as it stands. Raises NoSuchTableError."""
        current = self._metadata(identifier).current()
        if current is None:
            raise NoSuchTableError(f"Table does not exist: {_dotted(identifier)}")
        _, file = current
        metadata = _read(file)
        location = f"{self._location(identifier)}/metadata/{file.name}"
        return Table(
            identifier=self.identifier_to_tuple(identifier),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit ``updates`` on top of the table as it stands; create it if it does not exist.

        Raises CommitFailedException if a requirement is not met, or another writer committed in between.
        """
        identifier = table.name()
        folder = self._metadata(identifier)
        try:
            current: Table | None = self.load_table(identifier)
        except NoSuchTableError:
            current = None
        # The base's version is that of the file that was read: a newer one may have come since.
        version = folder.version_of(current.metadata_location) if current else 0
        metadata = self._update_and_stage_table(current, identifier, requirements, updates).metadata
        if current and metadata == current.metadata:
            return _response(current.metadata, current.metadata_location)
        self._refuse_locations(identifier, current, metadata)
        # The codec of the base: were it that of the new metadata, two writers could create files of two names.
        compressed = (current or table).metadata.properties.get(_CODEC, "none").lower() == "gzip"
        text = metadata.model_dump_json(exclude_none=True).encode()
        try:
            name = folder.create(version + 1, gzip.compress(text) if compressed else text, compressed)
        except VersionExistsError as error:
            message = f"Version {version + 1} of table {_dotted(identifier)} was committed by another writer"
            raise CommitFailedException(message) from error
        except OSError as error:  # before the link was made, or after it
            if not self.table_exists(identifier) or self.load_table(identifier).metadata != metadata:
                raise CommitRefusedError(str(error)) from error
            return _response(metadata, self.load_table(identifier).metadata_location)
        return _response(metadata, f"{self._location(identifier)}/metadata/{name}")

    def drop_table(self, identifier: str | Identifier) -> None:
        """Remove a table's folder. Raises NoSuchTableError."""
        if self._metadata(identifier).current() is None:
            raise NoSuchTableError(f"Table does not exist: {_dotted(identifier)}")
        # At once: of a table that is half removed, readers would see an older state without its files.
        folder = self._folder(identifier)
        dropped = folder.with_name(f"{_DROPPED}{uuid4()}")
        folder.rename(dropped)
        remove_tree(dropped)

    def finish_drops(self, namespace: str | Identifier) -> None:
        """Remove the folders of tables of which a process that died in between has only removed the name."""
        for dropped in self._folder(namespace).glob(f"{_DROPPED}*"):
            remove_tree(dropped)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Remove a table's folder, and its data files that lie elsewhere unless ``gc.enabled`` is false.

        Raises NoSuchTableError.
        """
        table = self.load_table(identifier)
        is_allowed = table.metadata.properties.get("gc.enabled", "true").lower() != "false"
        elsewhere = files_elsewhere(table) if is_allowed else set()
        self.drop_table(identifier)
        for path in sorted(elsewhere):
            delete_file(table.io, path)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace. Raises NoSuchNamespaceError."""
        parent = self.identifier_to_tuple(namespace)
        return [(*parent, name) for name in self._children(parent) if self._metadata((*parent, name)).is_of_table()]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below ``namespace``. Raises NoSuchNamespaceError."""
        parent = self.identifier_to_tuple(namespace)
        return [(*parent, name) for name in self._children(parent) if not self._metadata((*parent, name)).is_of_table()]

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create the folder of a namespace, which has no properties. Raises NamespaceAlreadyExistsError."""
        if properties:
            raise NotImplementedError("a namespace of a hadoop catalog is a folder and has no properties")
        if self._is_namespace(namespace):
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {_dotted(namespace)}")
        self._folder(namespace).mkdir(parents=True, exist_ok=True)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Remove the folder of an empty namespace. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        if any(self._children(self.identifier_to_tuple(namespace))):
            raise NamespaceNotEmptyError(f"Namespace is not empty: {_dotted(namespace)}")
        try:
            self._folder(namespace).rmdir()
        except OSError as error:
            raise NamespaceNotEmptyError(f"Namespace is not empty: {_dotted(namespace)}") from error

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the location of a namespace. Raises NoSuchNamespaceError."""
        if not self._is_namespace(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {_dotted(namespace)}")
        return {"location": self._location(namespace)}

    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        folder = self._location(identifier)
        if location is not None and location.rstrip("/") != folder:
            raise ValueError(f"a table of a hadoop catalog lies in the folder of its name, {folder}, not in {location}")
        refuse_other_files(local_path(folder))
        metadata = new_table_metadata(
            location=folder,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        return StagedTable(
            identifier=self.identifier_to_tuple(identifier),
            metadata=metadata,
            metadata_location=f"{folder}/metadata/v1.metadata.json",
            io=self._load_file_io(properties, folder),
            catalog=self,
        )

    def _refuse_locations(self, identifier: Identifier, current: Table | None, metadata: TableMetadata) -> None:
        folder = current.metadata.location if current else self._location(identifier)
        if metadata.location.rstrip("/") != folder:
            raise ValueError(f"a table of a hadoop catalog cannot be relocated from {folder} to {metadata.location}")
        if _METADATA_PATH in metadata.properties:
            raise ValueError(f"a table of a hadoop catalog cannot have its metadata elsewhere: {_METADATA_PATH}")

    def _location(self, identifier: str | Identifier) -> str:
        parts = self.identifier_to_tuple(identifier)
        if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
            raise ValueError(f"no folder is called {_dotted(identifier)}")
        return "/".join([self._warehouse, *parts])

    def _folder(self, identifier: str | Identifier) -> Path:
        return local_path(self._location(identifier))

    def _metadata(self, identifier: str | Identifier) -> MetadataFolder:
        return MetadataFolder(self._folder(identifier) / "metadata")

    def _is_namespace(self, namespace: str | Identifier) -> bool:
        return self._folder(namespace).is_dir() and not self._metadata(namespace).is_of_table()

    def _children(self, namespace: Identifier) -> Iterator[str]:
        if namespace and not self._is_namespace(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {_dotted(namespace)}")
        if not self.folder.is_dir():
            return iter(())
        with os.scandir(self._folder(namespace)) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
            return iter(sorted(name for name in names if not name.startswith(_DROPPED)))


def _read(file: Path) -> TableMetadata:
    status = file.stat()
    return _parsed(file, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=2)
def _parsed(file: Path, _: tuple[int, int, int]) -> TableMetadata:
    """Return the content of a metadata file, which is never changed; a later table may have one of the same name.

    A run looks at a table and at its staging table many times, and metadata of thousands of snapshots is long.
    """
    content = file.read_bytes()
    text = gzip.decompress(content) if ".gz" in file.suffixes else content
    return TableMetadataUtil.parse_raw(text.decode())


def _response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse(metadata=metadata, **{"metadata-location": location})


def _dotted(identifier: Any) -> str:
    return identifier if isinstance(identifier, str) else ".".join(identifier)
