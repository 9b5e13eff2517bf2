"""The commit by which a merge publishes one table of an environment to the base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes
from rivet_dagster.catalogs.iceberg.commits.snapshots import live_files
from rivet_dagster.catalogs.iceberg.commits.updates import branch_is_at, remove_properties, remove_ref, set_properties
from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import (
    built,
    own_properties,
    recorded_properties,
)
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, last_publication_property
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
from rivet_dagster.catalogs.iceberg.names import environment_branch, environment_tag
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import withheld_mark
from rivet_dagster.catalogs.iceberg.writes.staged_table import VersionLocation

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate


@dataclass(frozen=True)
class MergeRelease(Release):
    """A publication from the ``environment``, whose branch of the table ends with it if ``ends``."""

    environment: str = ""
    ends: bool = True

    def of_own_table(
        self,
        opened: OpenedTable,
        source: Table,
        snapshot: Snapshot,
        location: VersionLocation,
        heartbeat: ObjectHeartbeat,
    ) -> None:
        """Publish the files of a table ``opened`` that the base does not have, or did not have; it is made there.

        ``source`` is the table as it was found. Raises what ``of_table`` does.
        """
        heartbeat.require()
        files = live_files(snapshot, source.io)
        plain = _without_history(source)
        if location.existing is None:
            self._make(plain, opened, location, files)
            return

        def changes(iceberg_table: Table) -> Changes:
            if self.is_done(iceberg_table):
                return Changes()
            made = self._adopted(iceberg_table, plain, files)
            return self.with_requirements(made.updates, made.requirements, made)

        self.commit_changes(changes)

    def _again(self, iceberg_table: Table, snapshot: int) -> Changes:
        """Return the changes that publish the environment's branch, with its columns and layout."""
        made = self._same_rows(iceberg_table, snapshot, lambda parent: tuple(self._laid_out(iceberg_table)))
        required = (branch_is_at(environment_branch(self.environment), snapshot),) if self.ends else ()
        return Changes(made.updates, (*made.requirements, *required), made.writers)

    def _laid_out(self, iceberg_table: Table) -> Iterator[TableUpdate]:
        """Yield the updates of what the environment has changed of columns, partitions and sort order."""
        from pyiceberg.table import update

        record = built(iceberg_table, self.environment)
        changed = record.changed if record is not None else ()
        if record is not None and "schema" in changed:
            yield update.SetCurrentSchemaUpdate.model_validate({"schema-id": record.schema})
        if record is not None and "spec" in changed:
            yield update.SetDefaultSpecUpdate.model_validate({"spec-id": record.spec})
        if record is not None and "order" in changed:
            yield update.SetDefaultSortOrderUpdate.model_validate({"sort-order-id": record.order})

    def property_updates(
        self, iceberg_table: Table, key: str | None = None, laid_out: bool = False
    ) -> tuple[TableUpdate, ...]:
        """Return the updates of the table's properties, and those that end the environment's branch."""
        properties = own_properties(iceberg_table, self.environment)
        left_out = (withheld_mark(""), OVERRIDE, CONTINUES)
        properties = {name: value for name, value in properties.items() if not name.startswith(left_out)}
        new = {name: value for name, value in properties.items() if value is not None} | dict(self.marks)
        new |= last_publication_property(self.snapshot_id, self.properties)
        gone = [
            name
            for name in {*properties, OVERRIDE, CONTINUES}
            if name in iceberg_table.metadata.properties and name not in new
        ]
        if not self.ends:
            return (*set_properties(new), *remove_properties(gone))
        refs = (environment_branch(self.environment), environment_tag(self.environment))
        ended = tuple(remove_ref(ref) for ref in refs if ref in iceberg_table.metadata.refs)
        gone += recorded_properties(iceberg_table, self.environment)
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
