"""The tables of a branch of Nessie, which runs build on branches of their own, and publish in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.metadata.layout import Layout
    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
    from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
    from rivet_dagster.catalogs.iceberg.writes.run_transaction import NessieTransaction
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
    from rivet_dagster.catalogs.iceberg.writes.withheld import Withheld


class NessieTables(IcebergTables, PublishesTogether):
    """Tables of Apache Iceberg on a branch of Nessie."""

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Look up the version to build upon, at the head of the branch, of which the first write makes the run's."""
        from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
        from rivet_dagster.catalogs.iceberg.writes.beginning import beginning
        from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_leftovers
        from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

        with self._reaching(table):
            run = RunCatalog(self._nessie)
        with self._reaching(table, "RVT-404"):
            open = self._opener(run)
            begin = beginning(open(table), table, parse_layout(options), self.name, open)
            remove_leftovers(self._opened(table), begin.place.io, begin.place.location)
        return self._of_run(IcebergTransaction(begin, new_snapshot_id(), session), run)

    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish the tables by one commit of the branch."""
        from rivet_dagster.catalogs.iceberg.writes.publishing_together import publish_together

        ours = cast("Sequence[tuple[IcebergTransaction, str]]", staged)
        with reaching(self.name, code="RVT-404"):
            return publish_together(self._nessie, ours)

    def _taken_up(self, table: str, version: Withheld, layout: Layout | None = None) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
        from rivet_dagster.catalogs.iceberg.writes.beginning import taken_up

        run = version.table.catalog
        if not isinstance(run, RunCatalog):
            return super()._taken_up(table, version, layout)
        now = self._opener(RunCatalog(self._nessie))
        taken = taken_up(now(table), table, self.name, self._opener(run), version, layout)
        taken.beginning = replace(taken.beginning, table=version.table)
        return self._of_run(taken, run)

    def _restaged(self, table: str, version: int) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
        from rivet_dagster.catalogs.iceberg.writes.beginning import restaged

        run = RunCatalog(self._nessie)
        open = self._opener(run)
        return self._of_run(restaged(open(table), table, self.name, open, version), run)

    def _of_run(self, made: IcebergTransaction, run: RunCatalog) -> NessieTransaction:
        """Return a transaction that stages on the branch of the run."""
        from rivet_dagster.catalogs.iceberg.writes.carrying import ErrorsOfRun
        from rivet_dagster.catalogs.iceberg.writes.run_transaction import NessieTransaction

        errors = made.beginning.errors
        of_run = ErrorsOfRun(**{field.name: getattr(errors, field.name) for field in fields(errors)})
        return NessieTransaction(
            replace(made.beginning, errors=of_run),
            made.snapshot_id,
            made.session,
            made.origin,
            _heartbeat=made._heartbeat,
            run=run,
            target=self._nessie,
            open=self._opener(run),
        )

    def _opener(self, run: RunCatalog) -> Opener:
        """Return a function that opens tables as the branch of a run has them, or will have them."""
        from rivet_dagster.catalogs.iceberg.nessie.run_catalog import TableOfRun

        def open(table: str) -> OpenedTable:
            target = self._opened(table)
            return TableOfRun(run, replace(target.name, ref=run.branch or target.name.ref), target=target)

        return open

    @property
    def _nessie(self) -> NessieCatalog:
        from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

        catalog = self._catalog
        assert isinstance(catalog, NessieCatalog)
        return catalog
