"""A catalog of tables in this process's memory: a template for your own catalogs, and for tests."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, get_args

import pyarrow as pa

from rivet_dagster.catalogs.capabilities.sources import ListsTables
from rivet_dagster.catalogs.capabilities.targets import (
    NO_OPTIONS,
    ErrorTransaction,
    HasErrorTables,
    HasVersions,
    PlanType,
    VersionTransaction,
)
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.catalogs.rewriting.rewrite import Rewritten, WrittenRows, rewritten
from rivet_dagster.catalogs.versions.facts import record_of
from rivet_dagster.catalogs.versions.refusals import other_table, overtaken, refuse_second_errors, unknown_version
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import ArrowRows, Kinds
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import (
    CURRENT,
    OLDER,
    WITHHELD,
    Base,
    Provenance,
    Published,
    Statistics,
    StoredRows,
    Version,
)
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.testing.memory_environments import MemoryEnvironments
from rivet_dagster.testing.memory_store import Errors, MemoryVersion, StoredTable, arrow_rows, store_of

_LOCK = Lock()


class MemoryCatalog(HasVersions, HasErrorTables, HasEnvironments, ListsTables):
    """Tables in memory, shared by all catalogs of the same name in this process; ``environment`` has its own."""

    type: ClassVar[str] = "memory"
    options: ClassVar[frozenset[str]] = frozenset()
    gives: ClassVar[Kinds] = frozenset({ArrowRows})
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return no errors, since there are no options."""
        return {}

    def __init__(self, spec: CatalogSpec, root: Path, environment: str | None = None) -> None:
        self.name = spec.name
        self.environment = environment
        self._store = store_of(spec.name)
        self._tables = self._store.tables if environment is None else self._store.environment(environment).tables
        self._in_environment = partial(MemoryCatalog, spec, root)

    @property
    def environment_storage(self) -> MemoryEnvironments | None:
        """What this process has of environments; None in an environment."""
        return MemoryEnvironments(self._store, self._in_environment) if self.environment is None else None

    def relation(self, table: str, options: Mapping[str, Any]) -> ArrowRows:
        """Return the rows, or the errors, of the published version."""
        errors = self._errors_called(table)
        return arrow_rows(errors[1].rows) if errors is not None else self.read(self._required(table))

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of the published version."""
        errors = self._errors_called(table)
        statistics = errors[1].rows.statistics if errors is not None else self._required(table).statistics
        return tuple(Field(*column) for column in statistics.columns)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the name of the published version."""
        errors = self._errors_called(table)
        return errors[0].version if errors is not None else self._required(table).version

    def uri(self, table: str) -> str:
        """Return a URI for display, which cannot be opened."""
        return f"memory:{self.name}/{table}"

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> MemoryTransaction:
        """Begin an empty version, based on the published one."""
        return MemoryTransaction(self, table, secrets.token_hex(4), MemoryVersion(session, self._current(table)))

    def current(self, table: str) -> Published | None:
        """Return the last published version."""
        return current[0] if (current := self._current(table)) is not None else None

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return any published version, since none expires."""
        stored = self._table(table)
        name = stored.publishers.get(identity)
        return next((published for published, _ in stored.published if published.version == name), None)

    def read(self, published: Published) -> ArrowRows:
        """Return the rows themselves, which never change."""
        for version, rows in self._table(published.table).published:
            if version.version == published.version:
                return arrow_rows(rows)
        raise RivetError("RVT-401", f"the version {published.version} of '{published.table}' has been removed")

    def errors_of(self, published: Published) -> ArrowRows | None:
        """Return the rows themselves, as ``read`` does."""
        self.read(published)
        errors = self._table(published.table).errors.get(published.version)
        return arrow_rows(errors.rows) if errors is not None else None

    def refuse_errors(self, table: str, errors: str) -> None:
        """Raise RVT-404 if ``errors`` cannot be the error table of ``table``, since another table has that name."""
        other = self._errors_called(errors)
        if self.current(errors) is not None or errors == table or (other is not None and other[0].table != table):
            raise other_table(errors, table)

    def evict(self, published: Published) -> None:
        """Remove all versions of the table."""
        with _LOCK:
            if self.current(published.table) == published:
                del self._tables[published.table]

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables that have a published version."""
        return tuple(sorted(name for name in self._tables if name.startswith(prefix) and self.current(name)))

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return all published versions, the newest first, then the withheld ones."""
        stored = self._table(table)
        states = [CURRENT] + [OLDER] * len(stored.published)
        published = zip(reversed(stored.published), states, strict=False)
        withheld = (Version(name, WITHHELD, rows.statistics.rows) for name, (rows, *_) in stored.withheld.items())
        return (*(_described(version, state) for (version, _), state in published), *withheld)

    def take_up(self, table: str, version: str) -> MemoryTransaction:
        """Reopen a withheld version, based on what is published now."""
        withheld = self._table(table).withheld
        if version not in withheld:
            raise unknown_version(table, version, WITHHELD)
        rows, _, made = withheld[version]
        return self._copy(table, version, rows, made, self._table(table).errors.get(version))

    def restage(self, table: str, version: str) -> MemoryTransaction:
        """Begin a version with the rows of an older one."""
        errors = self._table(table).errors.get(version)
        for published, rows in self._table(table).published[:-1]:
            if published.version == version:
                made = Provenance(published.inputs, published.code_versions)
                return self._copy(table, secrets.token_hex(4), rows, made, errors)
        raise unknown_version(table, version, OLDER)

    def publish(self, transaction: MemoryTransaction, identity: str, rewrite: Rewritten, made: Provenance) -> Published:
        """Publish a version in one atomic step."""
        with _LOCK:
            if transaction.errors is not None:
                self.refuse_errors(transaction.table, transaction.errors.table)
            table = self._tables.setdefault(transaction.table, StoredTable())
            last = table.published[-1][0] if table.published else None
            if (last.version if last else None) != transaction.upon:
                raise overtaken(transaction.table)
            before = last.statistics.rows if last else 0
            statistics = rewrite.whole.statistics
            record = record_of(rewrite.record, statistics, before)
            name, uri = transaction.table, self.uri(transaction.table)
            published = Published(
                self.name,
                name,
                transaction.version,
                uri,
                statistics,
                before,
                identity,
                record,
                made.inputs,
                self.environment,
                code_versions=made.code_versions,
            )
            table.published.append((published, rewrite.whole))
            table.keep_errors(transaction.version, transaction.errors)
            _, made_by, _ = table.withheld.pop(transaction.version, (None, identity, None))
            table.publishers |= {made_by: transaction.version, identity: transaction.version}
            return published

    def withhold(self, transaction: MemoryTransaction, identity: str, rows: StoredRows, made: Provenance) -> None:
        """Withhold a version."""
        with _LOCK:
            table = self._tables.setdefault(transaction.table, StoredTable())
            table.withheld[transaction.version] = (rows, identity, made)
            table.keep_errors(transaction.version, transaction.errors)

    def forget(self, transaction: MemoryTransaction) -> None:
        """Remove a withheld version."""
        with _LOCK:
            table = self._table(transaction.table)
            table.withheld.pop(transaction.version, None)
            table.errors.pop(transaction.version, None)

    def _copy(
        self, table: str, version: str, rows: StoredRows, made: Provenance, errors: Errors | None
    ) -> MemoryTransaction:
        filled = MemoryVersion(None, self._current(table))
        filled.take(rows)
        return MemoryTransaction(self, table, version, filled, made, errors)

    def _table(self, name: str) -> StoredTable:
        return self._tables.get(name, StoredTable())

    def _current(self, table: str) -> tuple[Published, StoredRows] | None:
        published = self._table(table).published
        return published[-1] if published else None

    def _errors_called(self, name: str) -> tuple[Published, Errors] | None:
        """Return the published version whose error table is called ``name``, and its errors."""
        for table in list(self._tables.values()):
            published = table.published[-1][0] if table.published else None
            errors = table.errors.get(published.version) if published is not None else None
            if published is not None and errors is not None and errors.table == name:
                return published, errors
        return None

    def _required(self, table: str) -> Published:
        published = self.current(table)
        if published is None:
            raise RivetError("RVT-403", f"{self.uri(table)} does not exist")
        return published


class MemoryTransaction(VersionTransaction, ErrorTransaction):
    """A transaction on a version in memory: a rewrite of the table that shares nothing with its base."""

    def __init__(
        self,
        catalog: MemoryCatalog,
        table: str,
        version: str,
        filled: MemoryVersion,
        made: Provenance | None = None,
        errors: Errors | None = None,
    ) -> None:
        self.table = table
        self.version = version
        self.upon = filled.upon
        self.errors = errors
        self._catalog = catalog
        self._filled = filled
        self._made_from = made or Provenance()
        self._rows = WrittenRows(filled.audit)

    @property
    def base(self) -> Base | None:
        """The version that was published when this one was begun."""
        return self._filled.base

    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Rewrite the table."""
        self.query_plan = self._rows.write(rewritten(self._filled, plan, frame, context))

    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Add the rows as an Arrow table."""
        self._catalog.refuse_errors(self.table, table)
        rows = no_errors().read_all() if frame is None else self._filled.session.to_arrow(frame)
        if self.errors is not None:
            refuse_second_errors(f"'{self.table}'", self.errors.table, table)
            rows = pa.concat_tables([arrow_rows(self.errors.rows).batches().read_all(), rows])
        statistics = Statistics(rows.num_rows, rows.nbytes, tuple(ERROR_TYPES.items()))
        self.errors = Errors(table, StoredRows(ArrowRows(rows.schema, rows.to_reader), statistics))
        return self.errors.rows

    def put(self, rows: pa.RecordBatchReader) -> bool:
        """Return False, since only an engine knows the SQL types of the columns."""
        return False

    @property
    def batch(self) -> StoredRows:
        """The batch."""
        return self._rows.result.batch

    @property
    def whole(self) -> StoredRows:
        """All rows of the version."""
        return self._rows.result.whole

    def beat(self) -> None:
        """Do nothing, since a run of this process never counts as dead."""

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        return self._catalog.publish(self, identity, self._rows.result, self._made(made))

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        self._catalog.withhold(self, identity, self.whole, self._made(made))

    def _made(self, made: Provenance | None) -> Provenance:
        return made or self._made_from

    def _abort(self) -> None:
        self._catalog.forget(self)
        self._rows.close()


def _described(published: Published, state: str) -> Version:
    return Version(
        published.version, state, published.statistics.rows, identity=published.identity, inputs=published.inputs
    )
