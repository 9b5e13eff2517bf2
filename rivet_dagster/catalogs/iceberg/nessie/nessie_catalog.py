"""Iceberg's catalog of the kind ``nessie``: the keys of a branch of Nessie, whose contents name metadata files.

The rules are those of NessieCatalog in Iceberg's Java library, so that both can commit to the same tables. Nessie also
speaks Iceberg's own REST protocol, but that has no branches of a table: a snapshot that is to be audited on one is the
current one at once, and those before it are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from rivet_dagster.catalogs.iceberg.nessie.server import (
    ENVIRONMENT,
    NAMESPACE,
    RUN,
    TABLE,
    VIEW,
    Content,
    Key,
    NessieConflictError,
    NessieError,
    NessieServer,
    Reference,
    delete,
    put,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.view import View

_NO_GC = {"gc.enabled": "false"}
"""What each table has as a property, also from the Java library: nobody deletes files by what one branch needs."""


class NessieCatalog(MetastoreCatalog):
    """The tables of the branch ``ref`` of a Nessie server, the server's default branch without one.

    Tables that are dropped, or replaced, keep their files: other branches, and the history of this one, name them.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.server = NessieServer(properties["uri"], properties.get("authentication.token"))
        self._warehouse = properties["warehouse"].rstrip("/")
        self._declared_ref = properties.get("ref")
        self._recent: tuple[str, TableMetadata | None] = ("", None)

    @property
    def ref(self) -> str:
        """The branch."""
        return self._declared_ref or self.server.default_branch

    def at(self, ref: str) -> NessieCatalog:
        """Return the tables of another branch, which need not exist."""
        return NessieCatalog(self.name, **{**self.properties, "ref": ref})

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create a table in a namespace that exists. Raises TableAlreadyExistsError, NoSuchNamespaceError."""
        args = (identifier, schema, location, partition_spec, sort_order, properties)
        if self.table_exists(identifier):
            raise TableAlreadyExistsError(f"Table already exists: {_dotted(identifier)}")
        return self.create_table_transaction(*args).commit_transaction()

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table as it stands. Raises NoSuchTableError, and NoSuchIcebergTableError for other contents."""
        key = self.identifier_to_tuple(identifier)
        return self._table(key, self._contents(key)[1])

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit ``updates`` on top of the table as it stands; create it if it does not exist.

        Raises CommitFailedException if a requirement is not met, or another writer committed in between.
        """
        key = table.name()
        head, content = self._contents(key)
        current = self._table(key, content) if content is not None else None
        if current is None and self._namespace(key[:-1])[1] is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {_dotted(key[:-1])}")
        staged = self._update_and_stage_table(current, key, requirements, updates)
        if current is not None and staged.metadata == current.metadata:
            return _response(current.metadata, current.metadata_location)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        known = {"id": content["id"]} if content is not None and "id" in content else {}
        new = {**known, **table_content(staged.metadata, staged.metadata_location)}
        try:
            self._commit(head, f"{'Update' if content else 'Create'} {_dotted(key)}", put(key, new))
        except NessieConflictError as error:
            # The refusal may answer a request that was sent twice; then a table has the file.
            if not self._is_named(key, staged.metadata_location):
                with suppress(OSError):
                    staged.io.delete(staged.metadata_location)
            raise CommitFailedException(str(error)) from error
        except NessieError as error:
            raise CommitStateUnknownException(str(error)) from error
        return _response(staged.metadata, staged.metadata_location)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Remove a table from the branch. Raises NoSuchTableError."""
        key = self.identifier_to_tuple(identifier)
        head, content = self._contents(key)
        if content is None:
            raise NoSuchTableError(f"Table does not exist: {_dotted(key)}")
        try:
            self._commit(head, f"Drop {_dotted(key)}", delete(key))
        except NessieConflictError as error:
            if self._contents(key)[1] is not None:  # else the refusal answers a request that was sent twice
                raise CommitFailedException(str(error)) from error

    def purge_table(self, identifier: str | Identifier) -> None:
        """Remove a table from the branch, as ``drop_table`` does."""
        self.drop_table(identifier)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace. Raises NoSuchNamespaceError."""
        parent = self.identifier_to_tuple(namespace)
        tables = sorted(key for key, type_ in self._entries() if type_ == TABLE and key[:-1] == parent)
        if not tables:
            self._required(namespace)
        return tables

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below ``namespace``. Raises NoSuchNamespaceError."""
        parent = self._required(namespace) if namespace else ()
        keys = (key for key, type_ in self._entries() if type_ == NAMESPACE and key[0] not in (ENVIRONMENT, RUN))
        return sorted(key for key in keys if key[:-1] == parent)

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create a namespace and those above it. Raises NamespaceAlreadyExistsError."""
        key = self.identifier_to_tuple(namespace)
        above = [key[:length] for length in range(1, len(key))]
        head, contents = self._found([*above, key])
        if key in contents:
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {_dotted(key)}")
        made = [put(each, namespace_content(each, {})) for each in above if each not in contents]
        try:
            self._commit(head, f"Create {_dotted(key)}", *made, put(key, namespace_content(key, properties)))
        except NessieConflictError as error:
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {_dotted(key)}") from error

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Remove an empty namespace. Raises NoSuchNamespaceError."""
        key = self._required(namespace)
        self._commit(self._namespace(key)[0], f"Drop {_dotted(key)}", delete(key))

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the properties of a namespace. Raises NoSuchNamespaceError."""
        key = self.identifier_to_tuple(namespace)
        content = self._namespace(key)[1]
        if content is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {_dotted(key)}")
        return dict(content.get("properties") or {})

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Raise NotImplementedError."""
        _not_here()

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Raise NotImplementedError."""
        _not_here()

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Raise NotImplementedError."""
        _not_here()

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Return whether the key is that of a view."""
        content = self._contents(self.identifier_to_tuple(identifier))[1]
        return content is not None and content["type"] == VIEW

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Raise NotImplementedError."""
        _not_here()

    def load_view(self, identifier: str | Identifier) -> View:
        """Raise NotImplementedError."""
        _not_here()

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Raise NotImplementedError."""
        _not_here()

    def drop_view(self, identifier: str | Identifier) -> None:
        """Raise NotImplementedError."""
        _not_here()

    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        key = self.identifier_to_tuple(identifier)
        # Other branches may have another table of that name, which must not share the folder.
        location = location or "/".join([self._warehouse, *key[:-1], f"{key[-1]}_{uuid4()}"])
        metadata = new_table_metadata(
            location=location,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        file = load_location_provider(location, properties).new_table_metadata_file_location()
        return StagedTable(key, metadata, file, self._load_file_io(properties, file), self)

    def _table(self, key: Key, content: Content | None) -> Table:
        if content is None:
            raise NoSuchTableError(f"Table does not exist: {_dotted(key)}")
        if content["type"] != TABLE:
            raise NoSuchIcebergTableError(f"{_dotted(key)} is a content of the type {content['type']}")
        location = str(content["metadataLocation"])
        io = self._load_file_io(location=location)
        # Metadata files are never changed, and have names of their own: a run looks at a table many times.
        recent, metadata = self._recent
        if metadata is None or recent != location:
            metadata = FromInputFile.table_metadata(io.new_input(location))
            metadata.properties.update(_NO_GC)
            self._recent = location, metadata
        return Table(key, metadata, location, self._load_file_io(metadata.properties, location), self)

    def _is_named(self, key: Key, location: str) -> bool:
        """Return whether a metadata file is that of a table, or was that of it; True if nobody can tell."""
        try:
            now = self.load_table(key)
        except NoSuchTableError:
            return False
        except Exception:  # of the server, or of the storage of another metadata file
            return True
        return location in (now.metadata_location, *(entry.metadata_file for entry in now.metadata.metadata_log))

    def _commit(self, head: str, message: str, *operations: dict[str, Any]) -> None:
        self.server.commit(Reference(self.ref, head), message, operations)

    def _contents(self, key: Key) -> tuple[str, Content | None]:
        """Return the hash of the branch now, and the content of a key there; None if it has none."""
        head, contents = self._found([key])
        return head, contents.get(key)

    def _found(self, keys: list[Key]) -> tuple[str, Mapping[Key, Content]]:
        """Return the hash of the branch now, and the contents of those keys that it has."""
        return self.server.contents(self.ref, keys)

    def _namespace(self, key: Key) -> tuple[str, Content | None]:
        head, content = self._contents(key)
        return head, content if content is not None and content["type"] == NAMESPACE else None

    def _required(self, namespace: str | Identifier) -> Key:
        self.load_namespace_properties(namespace)
        return self.identifier_to_tuple(namespace)

    def _entries(self) -> list[tuple[Key, str]]:
        return list(self.server.entries(self.ref))


def table_content(metadata: TableMetadata, location: str) -> dict[str, Any]:
    """Return the content of a table, which says the ids that are current in its metadata file."""
    return {
        "type": TABLE,
        "metadataLocation": location,
        "snapshotId": metadata.current_snapshot_id if metadata.current_snapshot_id is not None else -1,
        "schemaId": metadata.current_schema_id,
        "specId": metadata.default_spec_id,
        "sortOrderId": metadata.default_sort_order_id,
    }


def namespace_content(key: Key, properties: Properties) -> dict[str, Any]:
    """Return the content of a namespace."""
    return {"type": NAMESPACE, "elements": list(key), "properties": dict(properties)}


def _response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse(metadata=metadata, **{"metadata-location": location})


def _dotted(identifier: str | Identifier) -> str:
    return identifier if isinstance(identifier, str) else ".".join(identifier)


def _not_here() -> NoReturn:
    raise NotImplementedError("rivet_dagster does not need it of a nessie catalog")
