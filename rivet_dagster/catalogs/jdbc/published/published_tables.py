"""The tables that are published in a database, and their versions: the current one, and those that wait."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.catalogs.jdbc.options import table_name
from rivet_dagster.catalogs.jdbc.product import DatabaseKind, Reader
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT
from rivet_dagster.catalogs.jdbc.published.judging import count_violations
from rivet_dagster.catalogs.jdbc.published.layout import layout_of_batch
from rivet_dagster.catalogs.jdbc.published.publishing import Publication, publish
from rivet_dagster.catalogs.jdbc.published.records import Records
from rivet_dagster.catalogs.jdbc.published.stored_version import (
    BUILDING,
    PUBLISHED,
    STAGED,
    WITHHELD,
    StoredVersion,
    key_of,
    name_of,
)
from rivet_dagster.catalogs.jdbc.published.writing import Destination
from rivet_dagster.catalogs.versions.facts import ADOPTED
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.marks import find_staged_by, list_versions
from rivet_dagster.catalogs.versions.refusals import other_table
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.storage import ExistingTable, Published, Record, Statistics, StoredRows, Version
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.sql.database_queries import count_of, greatest_value, rows_of_all
from rivet_dagster.sql.database_trees import Name
from rivet_dagster.sql.write_strategies.trees import Columns

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """A version that is to be published ``upon`` another one, None for the first, and where it goes."""

    stored: StoredVersion
    upon: StoredVersion | None
    destination: Destination


@dataclass(frozen=True)
class PublishedTables:
    """The published tables of a catalog, in the schema of its own or in others, by the names that joints give them.

    In an ``environment`` they are in a schema of the environment; a table that was not built there begins as that of
    the ``base``.
    """

    catalog: str
    database: Database
    kind: DatabaseKind
    reader: Reader
    records: Records
    schema: str
    connections: int
    environment: str | None = None
    base: PublishedTables | None = None

    def key(self, table: str) -> str:
        """Return the text by which a table is known in the records. Raises RVT-204."""
        return key_of(table_name(table, self.schema))

    def stored_name(self, key: str) -> Name:
        """Return schema and name of the table with that key, as the database has it."""
        name = name_of(key)
        return name if self.base is None else name_in_environment(name, self.schema, self.records.schema)

    def name(self, table: str) -> Name:
        """Return schema and name of a table, as the database has it. Raises RVT-204."""
        return self.stored_name(self.key(table))

    def uri(self, name: Name) -> str:
        """Return the address of a table."""
        return f"{self.database.uri}/{quote('.'.join(name))}"

    def current_version(self, table: str) -> StoredVersion | None:
        """Return what is stored of the version that readers see; None if nothing is published, or it was dropped."""
        with self.database.connect(f"the table {table}") as connection:
            return self._current(connection, self.key(table))

    def current(self, table: str) -> Published | None:
        """Return the version that readers see."""
        stored = self.current_version(table)
        return None if stored is None else self.published(table, stored)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that the run ``identity`` has published."""
        with self.database.connect(f"the table {table}") as connection:
            stored = self.records.published_by(connection, self.key(table), identity)
        return None if stored is None else self.published(table, stored)

    def published(self, table: str, stored: StoredVersion) -> Published:
        """Return a stored version as others know it."""
        assert stored.manifest is not None
        published = stored.manifest.published(self.catalog, table, self.uri(self.name(table)))
        return published if self.environment is None else replace(published, environment=self.environment)

    def read(self, published: Published) -> JdbcTable:
        """Return the rows of that version, as long as it is the current one, or staged. Raises RVT-401."""
        name = self.name(published.table)
        with self.database.connect(f"the table {published.table}") as connection:
            stored = self._required(connection, published)
            if stored.state == STAGED:
                return self._staged_rows(connection, stored)
            return self._guarded(connection, name, stored)

    def errors_of(self, published: Published) -> JdbcTable | None:
        """Return the errors of that version, as ``read`` does; None if it has no error table. Raises RVT-401."""
        with self.database.connect(f"the table {published.table}") as connection:
            stored = self._required(connection, published)
            if stored.errors is None:
                return None
            if stored.state == STAGED:
                assert stored.write is not None
                query = rows_of_all(stored.write.errors, list(ERROR_TYPES), self.kind.dialect)
                return self.reader.staged_rows(connection, stored.write.errors[0], ATTEMPT, query)
            return self._guarded(connection, self.stored_name(stored.errors), stored)

    def begin(self, table: str) -> Beginning:
        """Begin a version upon the current one. Raises RVT-404 if the table is somebody else's."""
        key = self.key(table)
        with self.database.connect_to_write(table) as connection:
            self.records.create(connection)
            for version in self.records.sweep(connection, key):
                _LOG.info("removed what a dead run had left: %s", version)
            upon = self._current(connection, key)
            if upon is None and self._is_of_others(connection, self.stored_name(key)):
                raise self._not_published(connection, self.stored_name(key))
            destination, built_upon = self._destination(connection, table, upon)
            name = secrets.token_hex(6)
            stored = StoredVersion(name, key, BUILDING, upon=upon.version if upon else None, built_upon=built_upon)
            self.records.begin(connection, stored)
        return Beginning(stored, upon, destination)

    def existing(self, table: str) -> ExistingTable | None:
        """Return a table that was not published from here. Raises RVT-404, RVT-422."""
        name = self.name(table)
        with self.database.connect(f"the table {table}") as connection:
            if self._current(connection, self.key(table)) is not None:
                return None
            target = self.kind.find_target(connection, name)
            if target is None:
                return None
            statistics = Statistics(self._count(connection, name), 0, tuple(target.spark_columns))
        return ExistingTable(self.uri(name), statistics)

    def adopt(self, table: str) -> Published | None:
        """Take over a table that somebody else has made: its rows are the first version. Raises RVT-404, RVT-422."""
        with self.database.connect_to_write(table) as connection:
            self.records.create(connection)
            known = self._current(connection, self.key(table)) or self._adopted(connection, table)
        return None if known is None else self.published(table, known)

    def forget(self, table: str) -> bool:
        """Forget the versions of a table, which stays as it is; return whether there were any."""
        key = self.key(table)
        with self.database.connect_to_write(table) as connection:
            if self._current(connection, key) is None:
                return False
            self.records.forget(connection, key)
        return True

    def evict(self, published: Published) -> None:
        """Drop the table and its error table if that version is the current one."""
        key = self.key(published.table)
        with self.database.connect_to_write(published.table) as connection:
            stored = self._current(connection, key)
            if stored is None or stored.version != published.version:
                return
            with connection.transaction():  # what is forgotten but not dropped, is dropped by a sweep
                for dropped in (key, *([stored.errors] if stored.errors is not None else [])):
                    self.records.add_staged(connection, self.stored_name(dropped), stored.version)
                self.records.forget(connection, key)
            self.records.drop_staged(connection, stored.version)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the current version, then those that are withheld and staged: a database keeps no older ones."""
        key = self.key(table)
        with self.database.connect(f"the table {table}") as connection:
            current = self._current(connection, key)
            marked = [one for state in (WITHHELD, STAGED) for one in self.records.in_state(connection, state, key)]
        return list_versions([current.describe()] if current is not None else [], marked)

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that the run ``identity`` has staged."""
        with self.database.connect(f"the table {table}") as connection:
            staged = self.records.in_state(connection, STAGED, self.key(table))
        found = find_staged_by(staged, identity)
        return None if found is None else self.published(table, found)

    def keep_alive(self, table: str, version: str, seconds: float) -> bool:
        """Renew the heartbeat of a staged version; return whether there is one."""
        with self.database.connect_to_write(table) as connection:
            stored = self.records.version(connection, self.key(table), version)
            alive = stored is not None and stored.state == STAGED
            return alive and self.records.beat(connection, version, seconds)

    def keep_all_alive(self, versions: Set[str], seconds: float) -> frozenset[str]:
        """Renew the heartbeats of staged versions; return those that there are."""
        with self.database.connect_to_write("its staged rows") as connection:
            return self.records.beat_staged(connection, sorted(versions), seconds)

    def take_up(self, table: str, version: str, state: str) -> Beginning | None:
        """Return a version in that state, and the current one upon which it is to be published; None without one.

        A staged one is published upon the version that it was begun with.
        """
        key = self.key(table)
        with self.database.connect_to_write(table) as connection:
            stored = self.records.version(connection, key, version)
            if stored is None or stored.state != state:
                return None
            upon = self._current(connection, key)
            if state == STAGED:
                upon = self.records.version(connection, key, stored.upon) if stored.upon else None
        return Beginning(stored, upon, Destination(self.stored_name(key), None, None))

    def check_batch(self, table: str, plan: WritePlan, columns: Columns, is_partitioned: bool) -> None:
        """Raise what a batch of these columns would, as the table is now. Raises RVT-403, RVT-404, RVT-422, RVT-514."""
        name = self.name(table)
        with self.database.connect(f"the table {table}") as connection:
            existing = self.kind.find_target(connection, name)
        replaces = isinstance(plan, ReplaceAll) and not is_partitioned
        layout_of_batch(self.kind, name, existing, plan, columns, replaces, replaces and plan.replaces_table)

    def publish(self, publications: Sequence[Publication]) -> list[StoredVersion]:
        """Publish versions in one transaction. Raises what ``publishing.publish`` does."""
        return publish(self.database, self.kind, self.records, publications, self.stored_name)

    def records_of_merge(self, table: str, merged: StoredVersion) -> None:
        """Begin a version whose rows an environment has."""
        with self.database.connect_to_write(table) as connection:
            self.records.remove(connection, merged.version)  # of a merge that was interrupted
            self.records.begin(connection, replace(merged, state=BUILDING))

    def building(self) -> tuple[str, ...]:
        """Return what runs are building."""
        with self.database.connect("its tables") as connection:
            return tuple(self.records.building(connection))

    def sweep(self, failed: Callable[[RivetError], None] | None) -> tuple[str, ...]:
        """Remove what dead runs have left."""

        def tell(version: str, error: Exception) -> None:
            assert failed is not None
            failed(RivetError("RVT-404", f"what is left of the version {version} cannot be removed: {error}"))

        with self.database.connect_to_write("its staged rows") as connection:
            return tuple(self.records.sweep(connection, None, tell if failed is not None else None))

    def remove_staged(self, table: str, version: str) -> None:
        """Remove what was staged of a published version; if that fails, a sweep does it later."""
        try:
            with self.database.connect_to_write(table) as connection:
                self.records.drop_staged(connection, version)
                self.records.end_heartbeat(connection, version)
        except RivetError as error:
            _LOG.warning("the staged rows of '%s' are left for a sweep: %s", table, error)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the greatest value of a column of the current version. Raises RVT-401."""
        with self.database.connect(f"the table {published.table}") as connection:
            self._required(connection, published)
            name = self.name(published.table)
            existing = self.kind.find_target(connection, name)
            assert existing is not None
            spelled = {known.lower(): known for known in existing.columns}
            name_in_table = spelled.get(column.lower(), column)
            by_bytes = dict(existing.spark_columns).get(name_in_table) == "string"
            (value,) = connection.execute(
                greatest_value(name, name_in_table, by_bytes, self.kind.dialect)
            ).fetchone() or (None,)
            return value

    def watermark_override(self, published: Published) -> Override | None:
        """Return the watermark that a person has set for the current version."""
        stored = self.current_version(published.table)
        if stored is None or stored.version != published.version or stored.watermark is None:
            return None
        return Override(stored.watermark["value"])

    def override_watermark(self, published: Published, override: Override) -> None:
        """Store a watermark for the current version. Raises RVT-405."""
        with self.database.connect_to_write(published.table) as connection:
            if not self.records.set_watermark(connection, published.version, override.value):
                message = f"'{published.table}' has been published since: its watermark is another one now"
                raise RivetError("RVT-405", message)

    def refuse_errors(self, table: str, errors: str) -> None:
        """Raise RVT-404 if ``errors`` cannot be the error table of ``table``, since another table has that name."""
        key, own = self.key(errors), self.key(table)
        with self.database.connect_to_write(table) as connection:
            known = self.records.with_errors(connection, key)
            is_own = known is not None and known.table == own
            if key == own or (not is_own and self.kind.has_table(connection, self.stored_name(key))):
                raise other_table(errors, table)

    def data_version(self, table: str) -> str | None:
        """Return the current version of a table, or of the one whose errors it holds; None if it is not published."""
        key = self.key(table)
        with self.database.connect(f"the table {table}") as connection:
            stored = self._current(connection, key) or self.records.with_errors(connection, key)
        return None if stored is None else stored.version

    def count_violations(self, rows: StoredRows, checks: Sequence[CompiledCheck]) -> dict[str, int]:
        """Return how many violations of those checks there are that the database judges as engines do."""
        if not isinstance(rows.relation, JdbcTable):
            return {}
        with self.database.connect("its staged rows") as connection:
            return count_violations(connection, self.kind.dialect, rows, checks)

    def _current(self, connection: Connection, key: str) -> StoredVersion | None:
        stored = self.records.current(connection, key)
        there = stored is not None and self.kind.has_table(connection, self.stored_name(key))
        return stored if there else None

    def _required(self, connection: Connection, published: Published) -> StoredVersion:
        key = self.key(published.table)
        stored = self.records.version(connection, key, published.version)
        current = self._current(connection, key)
        is_current = stored is not None and current is not None and current.version == stored.version
        if stored is None or not (is_current or stored.state == STAGED):
            raise RivetError("RVT-401", _replaced(published.table, published.version))
        return stored

    def _guarded(self, connection: Connection, name: Name, stored: StoredVersion) -> JdbcTable:
        otherwise = f"RVT-401 {_replaced(stored.table, stored.version)}"
        return self.reader.current_rows(connection, name, self.records.is_current(stored), otherwise)

    def _staged_rows(self, connection: Connection, stored: StoredVersion) -> JdbcTable:
        write = stored.write
        assert write is not None
        if write.rows is not None:
            return self.reader.staged_rows(connection, write.rows, ATTEMPT, parts=max(1, self.connections - 1))
        schema, name, _ = write.staged[0]
        return self.reader.staged_rows(connection, (schema, name), ATTEMPT, write.whole)

    def _destination(
        self, connection: Connection, table: str, upon: StoredVersion | None
    ) -> tuple[Destination, str | None]:
        """Return the place of a new version, and the version of the base that it is the first to build upon there."""
        name = self.name(table)
        if upon is not None:
            rows = upon.manifest.rows if upon.manifest is not None else 0
            relation = self._guarded(connection, name, upon)
            return Destination(name, name, self.kind.find_target(connection, name), rows, relation), upon.built_upon
        if self.base is None or (of_base := self.base._current(connection, self.key(table))) is None:
            return Destination(name, None, None), None
        destination, _ = self.base._destination(connection, table, of_base)
        return replace(destination, target=name, requires=self.base.records.is_current(of_base)), of_base.version

    def _adopted(self, connection: Connection, table: str) -> StoredVersion | None:
        key, name = self.key(table), self.name(table)
        existing = self.kind.find_target(connection, name)
        if existing is None:
            return None
        rows = self._count(connection, name)
        version, now = secrets.token_hex(6), datetime.now(UTC).isoformat(timespec="milliseconds")
        manifest = Manifest(version, None, ADOPTED, rows, 0, 0, tuple(existing.spark_columns), now, Record(0))
        stored = StoredVersion(version, key, BUILDING, manifest=manifest)
        with connection.transaction():
            self.records.begin(connection, stored)
            if not self.records.publish(connection, stored, None):
                raise RivetError("RVT-405", f"'{table}' has been taken over by somebody else just now")
            self.records.record(connection, stored)
            self.records.end_heartbeat(connection, version)
        return replace(stored, state=PUBLISHED, number=1)

    def _count(self, connection: Connection, name: Name) -> int:
        (rows,) = connection.execute(count_of(name, self.kind.dialect)).fetchone() or (0,)
        return int(rows)

    def _is_of_others(self, connection: Connection, name: Name) -> bool:
        """Return whether there is a table that was not published, and that no run is about to publish."""
        return self.kind.has_table(connection, name) and self.records.stager_of(connection, name) is None

    def _not_published(self, connection: Connection, name: Name) -> RivetError:
        self.kind.find_target(connection, name)  # of a view another error tells more
        message = f"there is a table {'.'.join(name)} that was not published from here"
        remedy = (
            "Take it over with `rivet-dagster adopt JOINT`, or by `adopt: true` in the joint; or name another table."
        )
        return RivetError("RVT-404", message, remediation=remedy)


def name_in_environment(name: Name, base: str, schema: str) -> Name:
    """Return the name of a table in the ``schema`` of an environment, of a catalog whose own schema is ``base``.

    >>> name_in_environment(("shop", "orders"), "shop", "shop__pr-7")
    ('shop__pr-7', 'orders')
    >>> name_in_environment(("sales", "orders"), "shop", "shop__pr-7")
    ('shop__pr-7', 'sales.orders')
    """
    return (schema, name[1]) if name[0] == base else (schema, ".".join(name))


def _replaced(table: str, version: str) -> str:
    return f"the version {version} of '{table}' has been replaced, and a database keeps the current one alone"
