"""How transactions of the catalog begin: upon the current version, a withheld one or an older one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.iceberg.access import NessieAccess, TableAccess
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout
    from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
    from rivet_dagster.catalogs.iceberg.writes.run_transaction import NessieTransaction
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
    from rivet_dagster.catalogs.iceberg.writes.withheld import Withheld


class Transactions:
    """Transactions whose versions are staged on branches of their tables, or in staging tables."""

    def __init__(self, access: TableAccess) -> None:
        self.access = access

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Return a transaction upon the current version; the branch is made by its first write."""
        return self._begin(table, session, options, self.access.open)

    def take_up(self, table: str, version: Withheld, layout: IcebergLayout | None = None) -> IcebergTransaction:
        """Return a transaction upon a version that was withheld or staged."""
        from rivet_dagster.catalogs.iceberg.writes.beginning import take_up_version

        access = self.access
        return take_up_version(access.open(table), table, access.name, access.open, version, layout)

    def restage(self, table: str, version: int) -> IcebergTransaction:
        """Return a transaction with the rows of an older snapshot, of which no file is copied."""
        from rivet_dagster.catalogs.iceberg.writes.beginning import restage_version

        return restage_version(self.access.open(table), table, self.access.name, self.access.open, version)

    def publish_together(self, staged: Sequence[tuple[IcebergTransaction, str]]) -> tuple[Published, ...]:
        """Raise RVT-413: each table is published by a commit of its own."""
        raise RivetError("RVT-413", f"the catalog '{self.access.name}' publishes each table by a commit of its own")

    def _begin(
        self, table: str, session: EngineSession | None, options: Mapping[str, Any], open: Opener
    ) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.writes.beginning import begin_upon_current
        from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_leftovers
        from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

        target = self.access.open(table)
        with self.access.reaching(table, "RVT-404"):
            begin = begin_upon_current(open(table), table, parse_layout(options), self.access.name, open)
            remove_leftovers(target, begin.location.io, begin.location.root)
        return IcebergTransaction(begin, new_snapshot_id(), session)


class NessieTransactions(Transactions):
    """Transactions that stage on a branch of their run, which is made of the branch of the catalog."""

    def __init__(self, access: NessieAccess) -> None:
        super().__init__(access)
        self._nessie = access

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> NessieTransaction:
        """Return a transaction upon the version at the head of the branch, of which the first write makes the run's."""
        with self.access.reaching(table):
            run = self._new_run()
        return self._of_run(self._begin(table, session, options, self._opener(run)), run)

    def take_up(self, table: str, version: Withheld, layout: IcebergLayout | None = None) -> IcebergTransaction:
        """Return a transaction upon a version that was withheld or staged, on the branch of its run if it has one."""
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
        from rivet_dagster.catalogs.iceberg.writes.beginning import take_up_version

        run = version.table.catalog
        if not isinstance(run, RunCatalog):
            return super().take_up(table, version, layout)
        now = self._opener(self._new_run())
        taken = take_up_version(now(table), table, self.access.name, self._opener(run), version, layout)
        taken.beginning = replace(taken.beginning, table=version.table)
        return self._of_run(taken, run)

    def restage(self, table: str, version: int) -> NessieTransaction:
        """Return a transaction with the rows of an older snapshot, of which no file is copied."""
        from rivet_dagster.catalogs.iceberg.writes.beginning import restage_version

        run = self._new_run()
        open = self._opener(run)
        return self._of_run(restage_version(open(table), table, self.access.name, open, version), run)

    def publish_together(self, staged: Sequence[tuple[IcebergTransaction, str]]) -> tuple[Published, ...]:
        """Publish the tables by one commit of the branch."""
        from rivet_dagster.catalogs.iceberg.writes.run_transaction import publish_together

        with self.access.reaching(code="RVT-404"):
            return publish_together(self._nessie.nessie, staged)

    def _new_run(self) -> RunCatalog:
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog

        return RunCatalog(self._nessie.nessie)

    def _of_run(self, made: IcebergTransaction, run: RunCatalog) -> NessieTransaction:
        """Return a transaction that stages on the branch of the run."""
        from rivet_dagster.catalogs.iceberg.writes.run_transaction import ErrorsOfRun, NessieTransaction

        errors = made.beginning.errors
        of_run = ErrorsOfRun(**{field.name: getattr(errors, field.name) for field in fields(errors)})
        return NessieTransaction(
            replace(made.beginning, errors=of_run),
            made.snapshot_id,
            made.session,
            made.origin,
            heartbeat=made.heartbeat,
            run=run,
            target=self._nessie.nessie,
            open=self._opener(run),
        )

    def _opener(self, run: RunCatalog) -> Opener:
        """Return a function that opens tables as the branch of a run has them, or will have them."""
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import TableOfRun

        def open(table: str) -> OpenedTable:
            target = self.access.open(table)
            return TableOfRun(run, replace(target.name, ref=run.branch or target.name.ref), target=target)

        return open
