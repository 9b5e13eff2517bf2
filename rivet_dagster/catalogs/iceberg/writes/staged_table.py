"""A staging table beside the table of a run: it holds a whole new version, or a batch that a statement reads."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.commits.committing import REMOVES_METADATA, Changes, commit, create
from rivet_dagster.catalogs.iceberg.commits.snapshots import FORMAT
from rivet_dagster.catalogs.iceberg.commits.updates import (
    new_schema,
    remove_properties,
    set_properties,
    with_constraints,
)
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat, heartbeat_at, remove_empty_folders
from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout, order_of, retain_layout, spec_of
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, manifests_of
from rivet_dagster.catalogs.iceberg.metadata.summary import STAGED_FOR
from rivet_dagster.catalogs.iceberg.metadata.types import iceberg_schema
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import OTHER_NAME, translate_errors
from rivet_dagster.catalogs.iceberg.writes.staged_branch import (
    StagedBranch,
    refuse_other_writes,
    remove_branch,
    stored_rows,
)
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.engines.contract import EngineSession, Frame, Progress
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Base, StoredRows

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableUpdate

HEARTBEAT = "rivet.heartbeat"
"""The table property of a staging table with the URI of its run's heartbeat."""

PUBLISHING, REMOVED = "rivet.publishing-since", "rivet.removed"
"""Of one that will be a new table: since when a commit that makes the table of it may be under way, and that its files
are being removed, so that no such commit begins."""

OLDEST_REQUEST = timedelta(days=1)
"""The age after which a commit that makes a table is not under way any more, whatever server or proxy holds it."""

DATA_PATH = "write.data.path"
"""The table property that says where data files are written."""

_BEGUN_AFTER = "rivet.begun-after"
"""Of one for a table that exists: that table's id, and its last sequence number when the staging table was made."""

_OF_NEW_TABLES = {"write.parquet.compression-codec": "zstd"}
"""Properties that Iceberg's own library gives to each new table; without them files are written with gzip."""

_WITHOUT_OLD_METADATA = {REMOVES_METADATA: "true"}
"""Properties of new tables of ours, of which each run makes several commits: the 100 newest metadata files stay."""


@dataclass(frozen=True)
class VersionLocation:
    """Where the data files of a version belong: among those of the table ``of``.

    That exists if ``existing`` is not None; ``root`` is its location, or the one that it will have, ``data_path``
    the folder of its data files if they are to be elsewhere.
    """

    of: OpenedTable
    existing: Table | None
    root: str
    io: FileIO
    data_path: str | None = None

    @property
    def data(self) -> str:
        """The folder of the data files."""
        data_path = self.existing.metadata.properties.get(DATA_PATH) if self.existing is not None else self.data_path
        return data_path or f"{self.root.rstrip('/')}/data"


def locate_version(table: OpenedTable) -> VersionLocation:
    """Return where the data files of a table belong; nothing is made for one that does not exist.

    Raises RVT-403, and RVT-404 if the name is that of something else.
    """
    existing = table.load_if_any()
    if existing is not None:
        return VersionLocation(table.published, existing, existing.metadata.location, existing.io)
    with translate_errors(table.name.catalog, f"the table {'.'.join(table.name.identifier)}", "RVT-404"):
        if not table.catalog.namespace_exists(table.name.namespace):
            table.catalog.create_namespace_if_not_exists(table.name.namespace)
        _refuse_view(table)
        planned = planned_table(table)
    return VersionLocation(
        table.published, None, planned.metadata.location, planned.io, planned.metadata.properties.get(DATA_PATH)
    )


def _refuse_view(table: OpenedTable) -> None:
    """Raise RVT-404 if the name is that of a view."""
    from pyiceberg.exceptions import RESTError

    # Most catalogs, and some servers, know no views; of one that cannot be asked, the commit finds it out.
    with suppress(NotImplementedError, RESTError):
        if table.catalog.view_exists(table.name.identifier):
            raise RivetError("RVT-404", f"'{table.name}' is a view", remediation=OTHER_NAME)


@dataclass
class StagingTable(RewritableVersion):
    """A table without versions of its own, readable by its name until it is removed.

    Its data files lie where those of ``location`` do, so that a commit can make them that table's. ``base`` is the
    version that it builds upon, of ``rows_before`` rows; ``layout`` is the declared one. ``fence`` is a branch of the
    table that the version is for, which its publication requires, and which goes before these files do; None without a
    table.
    """

    table: OpenedTable
    location: VersionLocation
    heartbeat: ObjectHeartbeat
    engine_session: EngineSession | None
    upon: Base | None = None
    rows_before: int = 0
    layout: IcebergLayout = field(default_factory=IcebergLayout)
    is_scratch: bool = False
    exists: bool = False
    fence: StagedBranch | None = None
    _head: int | None = None

    @property
    def session(self) -> EngineSession:
        """The session that computes its rows."""
        assert self.engine_session is not None, "only an engine computes rows"
        return self.engine_session

    @property
    def relation(self) -> CatalogTable:
        """The relation that an engine writes to."""
        return CatalogTable(self.table.name.parts)

    @property
    def base(self) -> Base | None:
        """The version that it builds upon."""
        return self.upon

    def add(self, frame: Frame, context: WriteContext, split_by: str | None = None) -> None:
        """Have the engine append rows; the first ones determine the columns."""
        if not self.exists:
            self.make(self.session.schema(frame), split_by)
        self.append(frame, self.session, context.progress, split_by)

    def append(
        self,
        frame: Frame,
        session: EngineSession,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
    ) -> None:
        """Have the engine append rows to the table, which exists. Raises RVT-407 unless that adds one snapshot."""
        session.write(frame, self.relation, progress, split_by)
        iceberg_table = self.table.load()
        head = iceberg_table.metadata.current_snapshot_id
        refuse_other_writes(iceberg_table, head, self._head, f"the staging table {self.table.name}")
        self._head = head

    def make(self, schema: str, without: str | None = None) -> None:
        """Make the table, without rows, for columns given as Spark's JSON."""
        columns, spec, order = self._definition(_without(schema, without))
        planned = planned_table(self.table)
        updates = creation(self.table.catalog, columns, spec, order, planned.metadata.location, self._properties())
        if not create(self.table.catalog, planned, updates):
            raise RivetError("RVT-404", f"there is a table {self.table.name} already")
        self.exists = True

    def added(self) -> StoredRows:
        """Return the rows so far, as the last snapshot holds them."""
        return self.audit()

    def share(self, affected: Affected) -> Remaining:
        """Share nothing: a staging table holds all rows of its version."""
        return Remaining(self.rows_before, self.upon.relation if self.upon is not None else None)

    def audit(self) -> StoredRows:
        """Return all rows."""
        if not self.exists:
            raise RivetError("RVT-402", f"nothing has been written to {self.table.name}")
        return stored_rows(self.table)

    @contextmanager
    def scratch(self) -> Iterator[StagingTable]:
        """Begin another table for a batch, which is removed at the end of the block."""
        scratch = self.batch_table("_batch" if not self.is_scratch else "_changes")
        try:
            yield scratch
        finally:
            scratch.remove()

    def batch_table(self, suffix: str) -> StagingTable:
        """Return another staging table of the same run, not made yet, for rows that are never published."""
        name = replace(self.location.of.name.staged(self.heartbeat.key, suffix), ref=self.table.name.ref)
        batch = self.table.beside(name)
        return StagingTable(batch, self.location, self.heartbeat, self.engine_session, is_scratch=True)

    def remove(self) -> None:
        """Remove the table, and its data files but those that are published; do nothing if it does not exist."""
        if self.fence is not None:
            self.fence.remove()
        if self.exists:
            self.exists = False
            remove_staging_table(self.table, self.location.of)

    def remove_folder(self) -> None:
        """Remove its own folder after its data files are published; the table goes with the branch that it is on."""
        iceberg_table = self.table.load_if_any() if self.exists else None
        self.exists = False
        if iceberg_table is not None:
            _remove_folder(iceberg_table)

    def _definition(self, schema: str) -> tuple[Schema, PartitionSpec, SortOrder]:
        """Return the columns, the partitioning and the order of a table with the columns ``schema``."""
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

        if self.is_scratch:
            return iceberg_schema(schema), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
        existing = self.location.existing.metadata if self.location.existing is not None else None
        if existing is None:
            columns = iceberg_schema(schema)
            return columns, spec_of(self.layout, columns, None, None), order_of(self.layout, columns, None)
        given = iceberg_schema(schema, existing.schema(), existing.last_column_id + 1)
        columns = with_constraints(given, existing.schema())
        layout = retain_layout(self.layout, columns, existing)
        spec = spec_of(layout, columns, existing.spec(), existing.last_partition_id)
        return columns, spec, order_of(layout, columns, existing.sort_order())

    def _properties(self) -> dict[str, str]:
        from pyiceberg.table.metadata import TableMetadataV1

        existing = self.location.existing
        before = dict(existing.metadata.properties) if existing is not None and not self.is_scratch else {}
        written = {
            key: value for key, value in before.items() if key.startswith("write.") and "metadata.path" not in key
        }
        declared = {} if self.is_scratch else dict(self.layout.properties or {})
        where = {} if self.is_scratch else {DATA_PATH: self.location.data}
        marks = {STAGED_FOR: ".".join(self.location.of.name.identifier), HEARTBEAT: self.heartbeat.path}
        if existing is not None and not isinstance(existing.metadata, TableMetadataV1):
            marks[_BEGUN_AFTER] = f"{existing.metadata.table_uuid} {existing.metadata.last_sequence_number}"
        # With write-audit-publish Spark would write to a branch of the staging table.
        copied = {key: value for key, value in {**written, **declared}.items() if not key.startswith("write.wap.")}
        return {**copied, **where, **marks}


def heartbeat_of(staging: Table) -> ObjectHeartbeat:
    """Return the heartbeat of the run that has made a staging table: beside the table that it is for, or will be."""
    return heartbeat_at(staging.io, staging.metadata.properties[HEARTBEAT])


def planned_table(table: OpenedTable) -> Table:
    """Return a table as the catalog would make it, with its location; nothing is made."""
    from pyiceberg.schema import Schema

    return table.catalog.create_table_transaction(table.name.identifier, Schema())._table


def creation(
    catalog: Catalog, schema: Schema, spec: PartitionSpec, order: SortOrder, location: str, properties: dict[str, str]
) -> tuple[TableUpdate, ...]:
    """Return the updates that make a table, whose fields keep the ids of ``schema``; ``properties`` come first."""
    from pyiceberg.table import update

    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

    # Other branches of a Nessie server may name metadata files, however old.
    ours = {} if isinstance(catalog, NessieCatalog) else _WITHOUT_OLD_METADATA
    return (
        update.AssignUUIDUpdate(uuid=uuid.uuid4()),
        update.UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT}),
        *new_schema(schema),
        update.AddPartitionSpecUpdate(spec=spec),
        update.SetDefaultSpecUpdate.model_validate({"spec-id": -1}),
        update.AddSortOrderUpdate.model_validate({"sort-order": order}),
        update.SetDefaultSortOrderUpdate.model_validate({"sort-order-id": -1}),
        update.SetLocationUpdate(location=location),
        *set_properties({**_OF_NEW_TABLES, **ours, **properties}),
    )


def remove_staging_table(table: OpenedTable, of: OpenedTable, mark: str = STAGED_FOR) -> bool:
    """Remove a table with the property ``mark``, and its data files unless they are in a snapshot of ``of``.

    Return False if it stays.

    First the publication of these files is made impossible. Where it cannot be, since the commit that makes ``of`` of
    them may be under way, the table stays until that is older than OLDEST_REQUEST.
    """
    from pyiceberg.exceptions import NoSuchTableError

    iceberg_table = table.load_if_any()
    if iceberg_table is None or mark not in iceberg_table.metadata.properties:
        return True
    if not _is_unpublishable(table, iceberg_table, of):
        return False
    files = _paths_in(iceberg_table, iceberg_table.metadata.snapshots)
    # A batch lies in a folder of its own: the manifests of all snapshots of the table need not be read for it.
    published = of.load_if_any() if files and not _is_batch(iceberg_table) else None
    if published is not None:
        files -= _paths_in(published, _snapshots_since(published, iceberg_table))
    # Files first: as long as the table exists, a removal that was interrupted is repeated by the next one.
    for path in files:
        with suppress(FileNotFoundError):
            iceberg_table.io.delete(path)
    with suppress(NoSuchTableError):
        table.catalog.drop_table(table.name.identifier)
    _remove_folder(iceberg_table)
    if not _is_batch(iceberg_table):
        remove_empty_folders(iceberg_table.metadata.properties[DATA_PATH].removesuffix("/data"))
    return True


def mark_publishing(staging: OpenedTable) -> None:
    """Mark a staging table of which a new table is going to be made. Raises RVT-406 if it has been removed."""
    now = datetime.now(UTC).isoformat()

    def load() -> Table:
        iceberg_table = staging.load_if_any()
        if iceberg_table is None or REMOVED in iceberg_table.metadata.properties:
            raise RivetError("RVT-406", f"the staging table {staging.name} has been removed, by a sweep or by somebody")
        return iceberg_table

    commit(load, lambda found: Changes(set_properties({PUBLISHING: now})), str(staging.name))


def unmark_publishing(staging: OpenedTable) -> None:
    """Remove that mark, after the commit was refused, unless a sweep has removed the staging table."""
    if staging.load_if_any() is not None:
        commit(staging.load, lambda found: Changes(remove_properties([PUBLISHING])), str(staging.name))


def _is_batch(staging: Table) -> bool:
    """Return whether a staging table holds rows that are never published, since a statement reads them."""
    return DATA_PATH not in staging.metadata.properties


def _is_unpublishable(table: OpenedTable, iceberg_table: Table, of: OpenedTable) -> bool:
    """Make it impossible that a commit publishes the files of a staging table, and return whether it is."""
    key = staging_of(table.name.name)
    # What is on the branch of a run is published by its transaction alone, which removes this, or has.
    if _is_batch(iceberg_table) or table.published is not table:
        return True
    if of.load_if_any() is not None:
        if key is not None:
            remove_branch(of, key)
        return True
    is_removed = False

    def changes(staging: Table) -> Changes:
        nonlocal is_removed
        since = staging.metadata.properties.get(PUBLISHING)
        is_removed = since is None or datetime.now(UTC) - datetime.fromisoformat(since) > OLDEST_REQUEST
        return Changes(set_properties({REMOVED: "true"})) if is_removed else Changes()

    try:
        commit(table.load, changes, str(table.name))
    except RivetError:
        if table.load_if_any() is not None:  # else somebody else has removed it
            raise
    return is_removed


def _without(schema: str, column: str | None) -> str:
    """Return Spark's JSON of a schema without one of its columns."""
    if column is None:
        return schema
    parsed = json.loads(schema)
    return json.dumps({**parsed, "fields": [field for field in parsed["fields"] if field["name"] != column]})


def _snapshots_since(table: Table, staging: Table) -> list[Snapshot]:
    """Return the snapshots of a table that may have files of a staging table: those that are newer.

    Each has a greater sequence number than all that were there when the staging table was made. Older ones need not be
    read: a table may have thousands.
    """
    of, _, number = staging.metadata.properties.get(_BEGUN_AFTER, "").partition(" ")
    since = int(number) if of == str(table.metadata.table_uuid) else -1
    # Snapshots that were made with format version 1 have no sequence number.
    return [s for s in table.metadata.snapshots if not s.sequence_number or s.sequence_number > since]


def _paths_in(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the paths of the data files of snapshots."""
    manifests = {manifest.manifest_path: manifest for s in snapshots for manifest in manifests_of(s, table.io)}
    live = (manifest for manifest in manifests.values() if manifest.has_added_files() or manifest.has_existing_files())
    entries = (entries_of(manifest, table.io) for manifest in live)
    return {entry.data_file.file_path for of_one in entries for entry in of_one}


def _remove_folder(table: Table) -> None:
    """Remove what is left in the table's own folder, which no other table shares."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    name = table.name()[-1]
    location = table.metadata.location.rstrip("/")
    if not isinstance(table.io, PyArrowFileIO) or not location.endswith(name):
        return
    scheme, netloc, path = PyArrowFileIO.parse_location(location, table.io.properties)
    with suppress(FileNotFoundError):
        table.io.fs_by_scheme(scheme, netloc).delete_dir(path)
