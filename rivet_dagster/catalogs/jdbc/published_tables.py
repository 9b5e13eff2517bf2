"""The tables that are published in a database, and their versions: the current one, and those that wait."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT
from rivet_dagster.catalogs.jdbc.postgres.connection import Database
from rivet_dagster.catalogs.jdbc.postgres.copying import ATTEMPT
from rivet_dagster.catalogs.jdbc.postgres.judging import count_violations
from rivet_dagster.catalogs.jdbc.postgres.publishing import publish
from rivet_dagster.catalogs.jdbc.postgres.reading import Reader
from rivet_dagster.catalogs.jdbc.postgres.records import (
    BUILDING,
    PUBLISHED,
    STAGED,
    WITHHELD,
    Records,
    StoredVersion,
    key_of,
    name_of,
)
from rivet_dagster.catalogs.jdbc.postgres.table import lookup_table, table_name
from rivet_dagster.catalogs.jdbc.postgres.target import find_target
from rivet_dagster.catalogs.jdbc.postgres.transaction import PostgresTransaction
from rivet_dagster.catalogs.jdbc.postgres.writing import Place
from rivet_dagster.catalogs.manifest import Manifest
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.storage import CURRENT, Published, Record, StoredRows, Version
from rivet_dagster.model.storage import STAGED as IS_STAGED
from rivet_dagster.model.storage import WITHHELD as IS_WITHHELD
from rivet_dagster.model.watermark import Override
from rivet_dagster.sql.database_definitions import drop_table
from rivet_dagster.sql.database_writes import Name, count_of, greatest_value, rows_of_all

if TYPE_CHECKING:
    import psycopg

_LOG = logging.getLogger(__name__)

_STATES = {WITHHELD: IS_WITHHELD, STAGED: IS_STAGED}


@dataclass(frozen=True)
class PublishedTables:
    """The published tables of a catalog, in the schema of its own or in others, by the names that joints give them."""

    catalog: str
    database: Database
    reader: Reader
    records: Records
    schema: str
    connections: int
    environment: str | None = None

    def name(self, table: str) -> Name:
        """Return schema and name of a table. Raises RVT-204."""
        return table_name(table, self.schema)

    def uri(self, name: Name) -> str:
        """Return the address of a table."""
        return f"{self.database.uri}/{quote('.'.join(name))}"

    def current_version(self, table: str) -> StoredVersion | None:
        """Return what is stored of the version that readers see; None if nothing is published, or it was dropped."""
        with self.database.connect(f"the table {table}") as connection:
            return self._current(connection, self.name(table))

    def current(self, table: str) -> Published | None:
        """Return the version that readers see."""
        stored = self.current_version(table)
        return None if stored is None else self.published(table, stored)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that the run ``identity`` has published."""
        with self.database.connect(f"the table {table}") as connection:
            stored = self.records.published_by(connection, key_of(self.name(table)), identity)
        return None if stored is None else self.published(table, stored)

    def published(self, table: str, stored: StoredVersion) -> Published:
        """Return a stored version as others know it."""
        assert stored.manifest is not None
        found = stored.manifest.published(self.catalog, table, self.uri(self.name(table)))
        return found if self.environment is None else replace(found, environment=self.environment)

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
                query = rows_of_all(stored.write.errors, list(ERROR_TYPES), DIALECT)
                return self.reader.staged_rows(connection, stored.write.errors[0], ATTEMPT, query)
            return self._guarded(connection, name_of(stored.errors), stored)

    def begin(self, table: str, session: EngineSession | None, adopts: bool = False) -> PostgresTransaction:
        """Begin a version upon the current one. Raises RVT-404 if the table is somebody else's."""
        name = self.name(table)
        with self.database.connect_to_write(table) as connection:
            self.records.create(connection)
            for version in self.records.sweep(connection, key_of(name)):
                _LOG.info("removed what a dead run had left: %s", version)
            upon = self._current(connection, name)
            if upon is None and lookup_table(connection, name) is not None:
                upon = self._adopted(connection, table, name) if adopts else self._refuse(connection, table, name)
            stored = StoredVersion(secrets.token_hex(6), key_of(name), BUILDING, upon=upon.version if upon else None)
            place = self._place(connection, name, upon)
            self.records.begin(connection, stored)
        return PostgresTransaction(self, table, stored, upon, place, session)

    def adopt(self, table: str) -> Published:
        """Take over a table that somebody else has made: its rows are the first version. Raises RVT-403, RVT-404."""
        name = self.name(table)
        with self.database.connect_to_write(table) as connection:
            self.records.create(connection)
            known = self._current(connection, name)
            if known is None:
                known = self._adopted(connection, table, name)
        return self.published(table, known)

    def forget(self, table: str) -> bool:
        """Forget the versions of a table, which stays as it is; return whether there were any."""
        name = self.name(table)
        with self.database.connect_to_write(table) as connection:
            if self._current(connection, name) is None:
                return False
            self.records.forget(connection, key_of(name))
        return True

    def evict(self, published: Published) -> None:
        """Drop the table and its error table if that version is the current one."""
        name = self.name(published.table)
        with self.database.connect_to_write(published.table) as connection, connection.transaction():
            stored = self._current(connection, name)
            if stored is None or stored.version != published.version:
                return
            for dropped in (name, *([name_of(stored.errors)] if stored.errors is not None else [])):
                connection.execute(drop_table(dropped, DIALECT))
            self.records.forget(connection, key_of(name))

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the current version, then those that are withheld and staged: a database keeps no older ones."""
        key = key_of(self.name(table))
        with self.database.connect(f"the table {table}") as connection:
            current = self._current(connection, self.name(table))
            others = [one for state in _STATES for one in self.records.in_state(connection, state, key)]
        found = [_described(current, CURRENT)] if current is not None else []
        return (*found, *(_described(one, _STATES[one.state]) for one in others))

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that the run ``identity`` has staged."""
        with self.database.connect(f"the table {table}") as connection:
            staged = self.records.in_state(connection, STAGED, key_of(self.name(table)))
        found = next((one for one in staged if one.identity == identity), None)
        return None if found is None else self.published(table, found)

    def keep_alive(self, table: str, version: str, seconds: float) -> bool:
        """Renew the heartbeat of a staged version; return whether there is one."""
        with self.database.connect_to_write(table) as connection:
            stored = self.records.version(connection, key_of(self.name(table)), version)
            alive = stored is not None and stored.state == STAGED
            return alive and self.records.beat(connection, version, seconds)

    def take_up(self, table: str, version: str, state: str) -> PostgresTransaction | None:
        """Reopen a version in that state, to be published upon the current one; None if there is none.

        A staged one is published upon the version that it was begun with.
        """
        name = self.name(table)
        with self.database.connect_to_write(table) as connection:
            stored = self.records.version(connection, key_of(name), version)
            if stored is None or stored.state != state:
                return None
            upon = self._current(connection, name)
            if state == STAGED:
                upon = self.records.version(connection, key_of(name), stored.upon) if stored.upon else None
            return PostgresTransaction(self, table, stored, upon, self._place(connection, name, upon))

    def withhold_staged(self, table: str, version: str) -> bool:
        """Withhold a staged version; return whether there is one."""
        transaction = self.take_up(table, version, STAGED)
        if transaction is None:
            return False
        transaction.withhold(transaction.publication.version.identity)
        return True

    def publish_together(self, staged: Sequence[tuple[PostgresTransaction, str]]) -> tuple[Published, ...]:
        """Publish staged versions in one transaction, but for those that are published already."""
        waiting = []
        for transaction, identity in staged:
            if not transaction.has_ended:
                transaction.as_identity(identity)
                waiting.append(transaction)
        if waiting:
            published = publish(self.database, self.records, [transaction.publication for transaction in waiting])
            for transaction, stored in zip(waiting, published, strict=True):
                transaction.published_as(stored)
        return tuple(transaction.commit(identity) for transaction, identity in staged)

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
            existing = find_target(connection, name)
            assert existing is not None
            spelled = {known.lower(): known for known in existing.columns}
            own = spelled.get(column.lower(), column)
            by_bytes = dict(existing.spark_columns).get(own) == "string"
            (value,) = connection.execute(greatest_value(name, own, by_bytes, DIALECT)).fetchone() or (None,)
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
        key, own = key_of(self.name(errors)), key_of(self.name(table))
        with self.database.connect_to_write(table) as connection:
            known = self.records.with_errors(connection, key)
            is_own = known is not None and known.table == own
            if key == own or (not is_own and lookup_table(connection, name_of(key)) is not None):
                raise RivetError("RVT-404", f"'{errors}' cannot be the error table of '{table}': it is another table")

    def data_version(self, table: str) -> str | None:
        """Return the current version of a table, or of the one whose errors it holds; None if it is not published."""
        key = key_of(self.name(table))
        with self.database.connect(f"the table {table}") as connection:
            stored = self._current(connection, name_of(key)) or self.records.with_errors(connection, key)
        return None if stored is None else stored.version

    def count_violations(self, rows: StoredRows, checks: Sequence[CompiledCheck]) -> dict[str, int]:
        """Return how many violations of those checks there are that the database judges as engines do."""
        if not isinstance(rows.relation, JdbcTable):
            return {}
        with self.database.connect("its staged rows") as connection:
            return count_violations(connection, rows, checks)

    def _current(self, connection: psycopg.Connection[Any], name: Name) -> StoredVersion | None:
        stored = self.records.current(connection, key_of(name))
        return stored if stored is not None and lookup_table(connection, name) is not None else None

    def _required(self, connection: psycopg.Connection[Any], published: Published) -> StoredVersion:
        stored = self.records.version(connection, key_of(self.name(published.table)), published.version)
        current = self._current(connection, self.name(published.table))
        is_current = stored is not None and current is not None and current.version == stored.version
        if stored is None or not (is_current or stored.state == STAGED):
            raise RivetError("RVT-401", _replaced(published.table, published.version))
        return stored

    def _guarded(self, connection: psycopg.Connection[Any], name: Name, stored: StoredVersion) -> JdbcTable:
        check = self.records.is_current(stored)
        otherwise = f"RVT-401 {_replaced(name_of(stored.table)[1], stored.version)}"
        return self.reader.current_rows(connection, name, check, otherwise)

    def _staged_rows(self, connection: psycopg.Connection[Any], stored: StoredVersion) -> JdbcTable:
        write = stored.write
        assert write is not None
        if write.rows is not None:
            return self.reader.staged_rows(connection, write.rows, ATTEMPT, parts=max(1, self.connections - 1))
        schema, name, _ = write.staged[0]
        return self.reader.staged_rows(connection, (schema, name), ATTEMPT, write.whole)

    def _place(self, connection: psycopg.Connection[Any], name: Name, upon: StoredVersion | None) -> Place:
        if upon is None:
            return Place(name, None, None)
        existing = find_target(connection, name)
        rows = upon.manifest.rows if upon.manifest is not None else 0
        return Place(name, name, existing, rows, self._guarded(connection, name, upon))

    def _adopted(self, connection: psycopg.Connection[Any], table: str, name: Name) -> StoredVersion:
        existing = find_target(connection, name)
        if existing is None:
            raise RivetError("RVT-403", f"there is no table {'.'.join(name)}")
        (rows,) = connection.execute(count_of(name, DIALECT)).fetchone() or (0,)
        version, now = secrets.token_hex(6), datetime.now(UTC).isoformat(timespec="milliseconds")
        manifest = Manifest(version, None, "", rows, 0, 0, tuple(existing.spark_columns), now, Record(0))
        stored = StoredVersion(version, key_of(name), BUILDING, manifest=manifest)
        with connection.transaction():
            self.records.begin(connection, stored)
            if not self.records.publish(connection, stored, None):
                raise RivetError("RVT-405", f"'{table}' has been taken over by somebody else just now")
            self.records.record(connection, stored)
            self.records.end_heartbeat(connection, version)
        return replace(stored, state=PUBLISHED, number=1)

    def _refuse(self, connection: psycopg.Connection[Any], table: str, name: Name) -> StoredVersion:
        find_target(connection, name)  # of a view another error tells more
        message = f"there is a table {'.'.join(name)} that was not published from here"
        remedy = "Take it over with `rivet-dagster adopt JOINT`, or by `adopt: true` in the joint; or name another table."
        raise RivetError("RVT-404", message, remediation=remedy)


def _described(stored: StoredVersion, state: str) -> Version:
    manifest = stored.manifest
    assert manifest is not None
    at = manifest.published_at if state == CURRENT else None
    return Version(stored.version, state, manifest.rows, at, stored.identity, manifest.inputs)


def _replaced(table: str, version: str) -> str:
    return f"the version {version} of '{table}' has been replaced, and a database keeps the current one alone"
