"""The catalog ``jdbc``: tables and views of a database, which engines read through its JDBC driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from rivet_dagster.catalogs.capabilities.sources import HasSnapshots, ListsTables, TellsLocations
from rivet_dagster.catalogs.jdbc.examining import examine
from rivet_dagster.catalogs.jdbc.options import CONNECTIONS, OPTIONS, SourceOptions, wrong_options, wrong_source
from rivet_dagster.catalogs.jdbc.postgres.columns import wrong_casts
from rivet_dagster.catalogs.jdbc.postgres.connection import Database
from rivet_dagster.catalogs.jdbc.postgres.reading import DRIVER, PACKAGE, PostgresSnapshot, Reader
from rivet_dagster.catalogs.jdbc.postgres.table import find_table, list_tables, table_name
from rivet_dagster.catalogs.jdbc.postgres.versions import data_version
from rivet_dagster.entry_points import is_unexpanded, refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import JdbcTable, Kinds
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.target import Location

_SCHEMA = "public"


class JdbcCatalog(HasSnapshots, ListsTables, TellsLocations):
    """A database, of which a run of a group reads all tables at one snapshot."""

    type: ClassVar[str] = "jdbc"
    options: ClassVar[frozenset[str]] = OPTIONS
    gives: ClassVar[Kinds] = frozenset({JdbcTable})

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the table's name, and the options of a source."""
        if not is_unexpanded(table):
            try:
                table_name(table, _SCHEMA)
            except RivetError as error:
                told = error.diagnostics[0]
                yield Wrong(told.code, "table", told.message, told.remediation)
        if not is_written:
            yield from wrong_source(own)
            yield from wrong_casts(own.get("casts"))

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the address of the database, the schema and the table."""
        url, schema = options.get("url", ""), options.get("schema", _SCHEMA)
        if any(is_unexpanded(part) for part in (url, schema, table)):
            return
        try:
            yield ("jdbc", str(url).partition("?")[0], *table_name(table, str(schema)))
        except RivetError:
            return  # reported as an error of the table itself

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the address of the database, the schema and the table."""
        return cls.written_locations(options, table)

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(JdbcCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._connections = int(spec.options.get("connections", CONNECTIONS))
        self._database = Database.of(spec.name, spec.options, root)
        self._schema = str(spec.options.get("schema", _SCHEMA))
        self._reader = Reader(self._database, self._schema, str(spec.options.get("driver", DRIVER)))

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return the package of the JDBC driver."""
        return SessionNeeds(packages=(PACKAGE,)) if engine_type == "pyspark" else SessionNeeds()

    def snapshot(self, tables: int) -> PostgresSnapshot:
        """Return the tables at the snapshot of a transaction that begins now."""
        return PostgresSnapshot(self._reader, tables, self._connections)

    def relation(self, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the table, which is read by one query, so that all its rows are of one moment."""
        with self._database.connect(f"the table {table}") as connection:
            return self._reader.relation(connection, table, options)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema:
        """Return the columns; those that cannot be read have no type."""
        read, unreadable = self._reader.columns(table, options)
        types = {column.selected.name: column.spark_type for column in read}
        return tuple(Field(name, types.get(name)) for name in (*types, *unreadable))

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the greatest value of the column ``version_by``, or the database's counts of changed rows."""
        with self._database.connect(f"the table {table}") as connection:
            found = find_table(connection, table_name(table, self._schema))
            return data_version(connection, found, SourceOptions.of(options).version_by)

    def uri(self, table: str) -> str:
        """Return the address of the table."""
        return f"{self._database.uri}/{quote('.'.join(table_name(table, self._schema)))}"

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables and views that the user may read; those of the catalog's schema without its name."""
        with self._database.connect("its tables") as connection:
            found = list_tables(connection)
        names = [name if schema == self._schema else f"{schema}.{name}" for schema, name in found]
        return tuple(sorted(name for name in names if name.startswith(prefix)))

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about whether the database can be reached, and snapshots of it can be read."""
        return examine(f"catalog {self.name}", self._database)
