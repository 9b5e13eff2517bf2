"""The tables on the branch of an environment, each of which is the base's until it is built there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.staging import StagedTransaction
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.iceberg.access import NessieAccess
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironmentTables
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import (
    EnvironmentBranch,
    Seed,
    record_seed,
    seed_in,
    seed_key,
)
from rivet_dagster.catalogs.iceberg.nessie.server import Content, Key, delete, put
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


@dataclass(frozen=True)
class NessieEnvironmentTables(IcebergEnvironmentTables):
    """The tables on the branch ``environment``, which ``access`` opens; ``catalog`` finds these alone.

    Before its first write a table is given the base's current state.
    """

    base: NessieAccess
    access: NessieAccess
    environment: EnvironmentBranch

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.environment.name

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        published = self.catalog.published_by(table, identity)
        return None if published is None or self._base_has(table, published.version) else published

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any]) -> StagedTransaction:
        """Reopen a version that a run in the environment has staged; its heartbeat keeps merges away."""
        transaction = super().take_up_staged(table, version, options)
        self._publish_there(transaction)
        return transaction

    def evict(self, published: Published) -> None:
        """Give the environment the base's table again; a version of the base stays."""
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import version_of

        iceberg_table = self.access.open(published.table).load_if_any()
        current = iceberg_table.current_snapshot() if iceberg_table is not None else None
        if iceberg_table is None or current is None:
            return
        with self.access.reaching(published.table, "RVT-404"):
            if str(version_of(iceberg_table, current)) == published.version:
                give_back(self.environment, self.access.table_name(published.table).identifier, current.snapshot_id)

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS_OF

        key, environment = self.access.table_name(table).identifier, self.environment
        with self.access.reaching(table):
            contents = environment.contents([key, seed_key(key)])
            mark, content = contents.get(seed_key(key)), contents.get(key)
            if content is None:
                return False
            if mark is not None and str(content.get("snapshotId")) != mark["properties"]["snapshot"]:
                return True
            iceberg_table = self.access.open(table).load_if_any()
            of = iceberg_table.metadata.properties.get(ERRORS_OF) if iceberg_table is not None else None
        return of is not None and self.is_built(of)

    def built_names(self) -> tuple[str, ...]:
        """Return the tables that were built there, as joints name them, without error tables."""
        with self.access.reaching():
            seeds = self.environment.seeds()
        return tuple(seed.declared for seed in seeds if seed.declared and self.is_built(seed.declared))

    def seed_of(self, table: str) -> Seed:
        """Return the seed of a table that was built there."""
        seed = self.environment.seed(self.access.table_name(table).identifier)
        assert seed is not None, "each table that was built there has one"
        return seed

    def base_snapshot(self, table: str, iceberg_table: Table) -> int | None:
        """Return the snapshot that the table had in the base when it was given to the environment."""
        snapshot = self.seed_of(table).snapshot
        return int(snapshot) if snapshot else None

    def _base_has(self, table: str, version: str) -> bool:
        """Return whether a version had been published in the base when the environment's table was made of it."""
        iceberg_table, base = self.access.load(table), self.base_of(table)
        old = iceberg_table.snapshot_by_id(int(base.version)) if base is not None else None
        snapshot = iceberg_table.snapshot_by_id(int(version))
        if old is None or snapshot is None:
            return old is not None
        return (snapshot.sequence_number or 0) <= (old.sequence_number or 0)

    def exists(self) -> bool:
        """Return whether there is a branch."""
        return self.environment.state() is not None

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        with self.access.reaching(code="RVT-404"):
            self.environment.required()

    def prepare(self, table: str) -> None:
        """Have the environment's table, and its error table, be the base's, unless they were built there."""
        with self.access.reaching(table, "RVT-404"):
            self._prepare(table)

    def _prepare(self, table: str) -> None:
        if self.is_built(table):
            return
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version

        iceberg_table = self.base.open(table).load_if_any()
        version = current_version(iceberg_table) if iceberg_table is not None else None
        for name in error_tables(iceberg_table) if iceberg_table is not None else ():
            seed(self.environment, self.access.table_name(name).identifier, "", "")
        seed(self.environment, self.access.table_name(table).identifier, table, str(version or ""))

    def announce(self, transaction: TableTransaction) -> None:
        """Have a transaction publish in the environment, and its heartbeat tell that a run writes there."""
        there = self._publish_there(transaction)
        with self.access.reaching(there.table, "RVT-404"):
            there.send_heartbeats(f"env-{self.name}")

    def _publish_there(self, transaction: TableTransaction) -> IcebergTransaction:
        """Have the versions of a transaction be those of the environment."""
        from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

        assert isinstance(transaction, IcebergTransaction)
        transaction.beginning = replace(transaction.beginning, environment=self.name)
        return transaction


def seed(environment: EnvironmentBranch, table: Key, declared: str, version: str) -> None:
    """Have a table that was not built in the environment be the base's, which is at ``version``."""
    mark = seed_key(table)
    of_base = environment.server.contents(environment.base, [table])[1].get(table)
    mine = environment.contents([table]).get(table)
    if of_base is not None and (mine is None or mine["id"] != of_base["id"]):
        _fetch(environment, table, of_base, mine)
    snapshot = str(of_base["snapshotId"]) if of_base is not None else ""
    metadata = str(of_base["metadataLocation"]) if of_base is not None else ""
    new = Seed(declared, snapshot, version, metadata)

    def changes(contents: Mapping[Key, Content]) -> list[dict[str, Any]]:
        known, mine = contents.get(mark), contents.get(table)
        if known is not None and seed_in(known) == new:
            return []
        operations = [record_seed(table, new, known)]
        if of_base is not None and mine != of_base:
            operations.append(put(table, of_base))
        elif of_base is None and mine is not None:
            operations.append(delete(table))
        return operations

    environment.change(f"Begin {'.'.join(table)} upon the base", [table, mark], changes)


def give_back(environment: EnvironmentBranch, table: Key, snapshot: int) -> None:
    """Undo what was built, unless ``snapshot`` is not current any more: the table there is the base's again."""
    mark = seed_key(table)
    of_base = environment.server.contents(environment.base, [table])[1].get(table)

    def changes(contents: Mapping[Key, Content]) -> list[dict[str, Any]]:
        undone = [delete(mark)] if mark in contents else []
        if table not in contents:
            return undone
        if contents[table].get("snapshotId") != snapshot:
            return []  # another version has been published since
        same = of_base is not None and contents[table]["id"] == of_base["id"]
        return [*undone, put(table, of_base) if same and of_base is not None else delete(table)]

    environment.change(f"Give up {'.'.join(table)}", [table, mark], changes)


def _fetch(environment: EnvironmentBranch, table: Key, of_base: Content, mine: Content | None) -> None:
    """Have the environment's branch have the base's table, one with another id than its own."""
    server = environment.server
    if mine is not None:
        environment.change(
            f"Remove {'.'.join(table)}", [table], lambda found: [delete(table)] if table in found else []
        )
    missing = [table[:length] for length in range(1, len(table))]
    known = environment.contents(missing)
    forced = [table, *(key for key in missing if key not in known)]
    into, source = server.reference(environment.ref), server.reference(environment.base)
    server.merge(into, source, f"Begin {'.'.join(table)} upon the base", forced)
    if environment.contents([table]).get(table, {}).get("id") != of_base["id"]:
        message = f"the environment '{environment.name}' cannot take over '{'.'.join(table)}' of the base"
        raise RivetError("RVT-404", message, remediation="Drop the environment, and make it anew.")
