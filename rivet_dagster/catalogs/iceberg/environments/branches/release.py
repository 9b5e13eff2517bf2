"""The commit by which a merge publishes one table of an environment to the base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, live_files
from rivet_dagster.catalogs.iceberg.commits.updates import (
    MAIN,
    branch_is_at,
    remove_properties,
    remove_ref,
    set_branch,
    set_properties,
)
from rivet_dagster.catalogs.iceberg.environments.branches.seen_table import (
    built,
    own_properties,
    recorded_properties,
)
from rivet_dagster.catalogs.iceberg.heartbeat import Heartbeat
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, remembering
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
from rivet_dagster.catalogs.iceberg.names import environment_branch, environment_tag
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import withheld_mark
from rivet_dagster.catalogs.iceberg.writes.staged_table import Place
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate


@dataclass(frozen=True)
class MergeRelease(Release):
    """A publication from the ``environment``, whose branch of the table ends with it if ``ends``."""

    environment: str = ""
    ends: bool = True

    def of_own_table(self, source: Table, snapshot: Snapshot, place: Place, heartbeat: Heartbeat) -> None:
        """Publish the files of a table that the base does not have, or did not have; it is made there.

        Raises what ``of_table`` does.
        """
        files = live_files(snapshot, source.io)
        plain = _without_history(source)
        if place.existing is None:
            self._make(plain, place, files, heartbeat)
            return

        def changes(found: Table) -> Changes:
            return Changes() if self._is_done(found) else self._adopted(found, plain, files)

        commit(self.table.load, changes, str(self.table.name))

    def _same_rows(self, found: Table, snapshot: int) -> Changes:
        """Return the changes that publish the environment's branch, with its columns and layout."""
        from pyiceberg.table.update import update_table_metadata

        parent = found.snapshot_by_id(snapshot)
        if parent is None:
            raise RivetError("RVT-401", f"the snapshot {snapshot} of '{self.table.name}' has expired")
        laid_out = tuple(self._laid_out(found))
        metadata = update_table_metadata(found.metadata, laid_out) if laid_out else found.metadata
        writer = SnapshotWriter(found.io, metadata, self.snapshot_id, parent)
        added = writer.same_rows(self.properties)
        required = [branch_is_at(environment_branch(self.environment), snapshot)] if self.ends else []
        updates = (*laid_out, added, set_branch(MAIN, self.snapshot_id))
        return Changes(updates, (*self._required(), *required), (writer,))

    def _laid_out(self, found: Table) -> Iterator[TableUpdate]:
        """Yield the updates of what the environment has changed of columns, partitions and sort order."""
        from pyiceberg.table import update

        record = built(found, self.environment)
        changed = record.changed if record is not None else ()
        if record is not None and "schema" in changed:
            yield update.SetCurrentSchemaUpdate.model_validate({"schema-id": record.schema})
        if record is not None and "spec" in changed:
            yield update.SetDefaultSpecUpdate.model_validate({"spec-id": record.spec})
        if record is not None and "order" in changed:
            yield update.SetDefaultSortOrderUpdate.model_validate({"sort-order-id": record.order})

    def _told(self, found: Table, key: str | None = None, laid_out: bool = False) -> tuple[TableUpdate, ...]:
        """Return the updates of the table's properties, and those that end the environment's branch."""
        own = own_properties(found, self.environment)
        left_out = (withheld_mark(""), OVERRIDE, CONTINUES)
        own = {name: value for name, value in own.items() if not name.startswith(left_out)}
        new = {name: value for name, value in own.items() if value is not None} | dict(self.marks)
        new |= remembering(self.snapshot_id, self.properties)
        gone = [name for name in {*own, OVERRIDE, CONTINUES} if name in found.metadata.properties and name not in new]
        if not self.ends:
            return (*set_properties(new), *remove_properties(gone))
        refs = (environment_branch(self.environment), environment_tag(self.environment))
        ended = tuple(remove_ref(ref) for ref in refs if ref in found.metadata.refs)
        gone += recorded_properties(found, self.environment)
        return (*set_properties(new), *remove_properties(gone), *ended)


def _without_history(table: Table) -> Table:
    """Return a table as if its columns and its layout had never been others."""
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

    of = table.metadata
    schema = of.schema().model_copy(update={"schema_id": 0})
    spec = PartitionSpec(*of.spec().fields)
    metadata = of.model_copy(
        update={
            "schemas": [schema],
            "current_schema_id": 0,
            "partition_specs": [spec],
            "default_spec_id": spec.spec_id,
        }
    )
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
