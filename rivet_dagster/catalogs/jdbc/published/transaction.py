"""The transaction of a table's new version in a database, from its first row until it is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.staging import StagedTransaction
from rivet_dagster.catalogs.capabilities.targets import ErrorTransaction, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT
from rivet_dagster.catalogs.jdbc.published.layout import layout_of
from rivet_dagster.catalogs.jdbc.published.published_tables import Beginning, PublishedTables
from rivet_dagster.catalogs.jdbc.published.publishing import Publication
from rivet_dagster.catalogs.jdbc.published.records import swept_away
from rivet_dagster.catalogs.jdbc.published.staging import StagedTable, Staging
from rivet_dagster.catalogs.jdbc.published.stored_version import STAGED, WITHHELD, StoredVersion
from rivet_dagster.catalogs.jdbc.published.writing import DatabaseWrite, StagedWrite, WholeRows
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.refusals import refuse_second_errors
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.storage import Base, Provenance, Published, Record, Statistics, StoredRows
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.sql.database_queries import rows_of_all

if TYPE_CHECKING:
    import pyarrow as pa


class DatabaseTransaction(StagedTransaction, VersionTransaction, ErrorTransaction):
    """A version of a table whose rows are staged beside it until one transaction of the database publishes it."""

    def __init__(
        self, tables: PublishedTables, table: str, beginning: Beginning, session: EngineSession | None = None
    ) -> None:
        stored, destination = beginning.stored, beginning.destination
        self.table = table
        self.version = stored.version
        self._tables = tables
        self._stored = stored
        self._upon = beginning.upon
        self._destination = destination
        self._session = session
        self._written: StagedWrite | None = None
        self._errors: list[StagedTable] = []
        self._staging = Staging(
            tables.database,
            tables.kind,
            tables.reader,
            tables.records,
            table,
            stored.version,
            destination.target[0],
            tables.connections,
        )

    @property
    def base(self) -> Base | None:
        """The version that was published when this one was begun."""
        destination = self._destination
        if destination.existing is None or destination.relation is None:
            return None
        return Base(destination.relation, tuple(destination.existing.spark_columns))

    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Stage the rows, and plan the statements that publish them."""
        assert self._session is not None and self._written is None, "a version is written once, with a session"
        context = context if context.started is not None else replace(context, started=datetime.now(UTC))
        self._written = DatabaseWrite(self._staging, self._destination, self._session, plan, context).stage(frame)
        self.query_plan = self._written.query_plan

    def put(self, rows: pa.RecordBatchReader) -> bool:
        """Return False: an engine copies rows to the database."""
        return False

    @property
    def batch(self) -> StoredRows:
        """The staged batch."""
        return self._required.batch

    @property
    def whole(self) -> StoredRows:
        """All rows that the table will have, as a query of the database."""
        return self._required.whole

    def count_violations(self, rows: StoredRows, checks: Sequence[CompiledCheck]) -> dict[str, int]:
        """Have the database count."""
        return self._tables.count_violations(rows, checks)

    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Stage the rows of errors."""
        errors = self._tables.key(table)
        refuse_second_errors(f"'{self.table}'", self._stored.errors, errors)
        self._tables.refuse_errors(self.table, table)
        self._stored = replace(self._stored, errors=errors)
        if frame is not None or not self._errors:
            self._errors.append(self._staged_errors(frame))
        with self._tables.database.connect_to_write(self.table) as connection:
            rows = sum(staged.rows for staged in self._errors)
            last = self._errors[-1]
            statistics = Statistics(rows, self._staging.statistics(connection, last).bytes, tuple(ERROR_TYPES.items()))
            query = rows_of_all([staged.name for staged in self._errors], list(ERROR_TYPES), self._tables.kind.dialect)
            relation = self._tables.reader.staged_rows(connection, last.name, ATTEMPT, query)
        return StoredRows(relation, statistics)

    def beat(self) -> None:
        """Send a heartbeat."""
        with self._tables.database.connect_to_write(self.table) as connection:
            if not self._tables.records.beat(connection, self.version):
                raise swept_away(self.version, self.table)

    def check_base(self) -> None:
        """Raise RVT-405 if a version has been published since this one was begun."""
        current = self._tables.current_version(self.table)
        if (current.version if current else None) != (self._upon.version if self._upon else None):
            raise RivetError("RVT-405", f"'{self.table}' has been published by another run since this one began")

    @property
    def publication(self) -> Publication:
        """The version to be published, and the one before it."""
        return Publication(self._stored, self._upon)

    def as_identity(self, identity: str) -> None:
        """Have the version be published by the run ``identity``."""
        self._stored = replace(self._stored, identity=identity, made_by=self._stored.made_by or identity)
        assert self._stored.manifest is not None
        self._stored = replace(self._stored, manifest=replace(self._stored.manifest, identity=identity))

    def published_as(self, stored: StoredVersion) -> Published:
        """Take note that the version has been published with others, and remove what was staged."""
        self._published = self._tables.published(self.table, stored)
        self._ended = True
        self._clean_up()
        return self._published

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        self._prepare(identity, made, Record(0))
        (stored,) = self._tables.publish([self.publication])
        published = self._tables.published(self.table, stored)
        if self._written is not None and isinstance(self._written.whole, WholeRows):
            self._written.whole.settle(published.statistics)
        self._clean_up()
        return published

    def _stage(self, identity: str, made: Provenance | None) -> Published:
        self._prepare(identity, made, None)
        self._change(STAGED)
        return self._tables.published(self.table, self._stored)

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        self._prepare(identity, made, None)
        write = self._stored.write
        assert write is not None
        with self._tables.database.connect_to_write(self.table) as connection:
            for schema, name in {(schema, name) for schema, name, _ in write.staged}:
                self._tables.kind.keep(connection, (schema, name))
        self._change(WITHHELD)

    def _abort(self) -> None:
        with self._tables.database.connect_to_write(self.table) as connection:
            self._tables.records.remove(connection, self.version)

    @property
    def _required(self) -> StagedWrite:
        assert self._written is not None, "nothing has been written"
        return self._written

    def _prepare(self, identity: str, made: Provenance | None, record: Record | None) -> None:
        """Complete what is stored of the version; ``record`` is None where it has to be counted before."""
        if self._written is None:  # it was staged or withheld before, with all that is known of it
            self.as_identity(identity)
            if made is not None:
                assert self._stored.manifest is not None
                manifest = replace(self._stored.manifest, inputs=made.inputs, code_versions=made.code_versions)
                self._stored = replace(self._stored, manifest=manifest)
            return
        made, written = made or Provenance(), self._written
        counted = written.record() if record is None else record
        manifest = Manifest(
            self.version,
            self._upon.version if self._upon is not None else None,
            identity,
            written.whole.statistics.rows if record is None else 0,
            self._destination.rows,
            written.batch.statistics.bytes,
            tuple(written.columns),
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            replace(counted, bytes=written.batch.statistics.bytes),
            made.inputs,
            code_versions=made.code_versions,
        )
        errors = tuple(staged.name for staged in self._errors)
        staged = (*written.write.staged, *((*one.name, one.rows) for one in self._errors))
        write = replace(written.write, errors=errors, staged=staged)
        self._stored = replace(self._stored, identity=identity, made_by=identity, manifest=manifest, write=write)

    def _change(self, state: str) -> None:
        with self._tables.database.connect_to_write(self.table) as connection:
            self._tables.records.change(connection, self._stored, state)
            if state == WITHHELD:
                self._tables.records.end_heartbeat(connection, self.version)
        self._stored = replace(self._stored, state=state)

    def _clean_up(self) -> None:
        """Remove what was staged; a failure is left to the next sweep, since the version is published."""
        self._tables.remove_staged(self.table, self.version)

    def _staged_errors(self, frame: Frame | None) -> StagedTable:
        columns = tuple(ERROR_TYPES.items())
        written = layout_of(self._tables.kind, self._destination.target, None, columns, replaces=True).columns
        name = f"errors_{len(self._errors)}"
        if frame is None:
            return self._staging.without_rows(name, columns, written)
        assert self._session is not None
        return self._staging.copy(name, self._session, frame, columns, written, NO_CONTEXT)


def publish_together(
    tables: PublishedTables, staged: Sequence[tuple[DatabaseTransaction, str]]
) -> tuple[Published, ...]:
    """Publish staged versions in one transaction of the database, but for those that are published already."""
    waiting = []
    for transaction, identity in staged:
        if not transaction.has_ended:
            transaction.as_identity(identity)
            waiting.append(transaction)
    if waiting:
        published = tables.publish([transaction.publication for transaction in waiting])
        for transaction, stored in zip(waiting, published, strict=True):
            transaction.published_as(stored)
    return tuple(transaction.commit(identity) for transaction, identity in staged)
