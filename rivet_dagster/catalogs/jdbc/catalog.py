"""The catalog ``jdbc``: tables and views of a database, which engines read through its JDBC driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.sources import HasSnapshots, ListsTables, Snapshot, TellsLocations
from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import (
    NO_OPTIONS,
    Adopts,
    ChecksBatches,
    HasErrorTables,
    HasTargets,
    HasVersions,
    HasWatermarks,
    PlanType,
)
from rivet_dagster.catalogs.capabilities.upkeep import Sweeps
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.jdbc.mariadb.product import MARIA
from rivet_dagster.catalogs.jdbc.options import (
    CONNECTIONS,
    MARIADB,
    OPTIONS,
    POSTGRES,
    REPLACE_BY,
    SWAP,
    SourceOptions,
    table_name,
    wrong_options,
)
from rivet_dagster.catalogs.jdbc.postgres.product import POSTGRESQL
from rivet_dagster.catalogs.jdbc.product import Product
from rivet_dagster.catalogs.jdbc.published.environment_state import schema_of_environment
from rivet_dagster.catalogs.jdbc.published.environments import DatabaseEnvironments
from rivet_dagster.catalogs.jdbc.published.published_tables import PublishedTables
from rivet_dagster.catalogs.jdbc.published.records import Records
from rivet_dagster.catalogs.jdbc.published.stored_version import STAGED, WITHHELD
from rivet_dagster.catalogs.jdbc.published.transaction import DatabaseTransaction, publish_together
from rivet_dagster.catalogs.versions.refusals import no_staged_version, unknown_version
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import is_unexpanded, refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import JdbcTable, Kinds
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import ExistingTable, Published, Version
from rivet_dagster.model.target import Location
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.database_trees import Name
from rivet_dagster.sql.write_strategies.alignment import plain_columns

_PRODUCTS = {POSTGRES: POSTGRESQL, MARIADB: MARIA}


def product_of(url: Any) -> Product:
    """Return the product of a JDBC URL; PostgreSQL where that cannot be known yet.

    >>> product_of("jdbc:postgresql://db/shop").name
    'PostgreSQL'
    """
    return next((product for prefix, product in _PRODUCTS.items() if str(url).startswith(prefix)), POSTGRESQL)


class JdbcCatalog(
    HasSnapshots,
    HasVersions,
    HasErrorTables,
    HasWatermarks,
    StagesForRuns,
    PublishesTogether,
    HasEnvironments,
    Adopts,
    ChecksBatches,
    Sweeps,
    ListsTables,
    TellsLocations,
):
    """A database, of which a run of a group reads all tables at one snapshot, and publishes each in one transaction."""

    type: ClassVar[str] = "jdbc"
    options: ClassVar[frozenset[str]] = OPTIONS
    gives: ClassVar[Kinds] = frozenset({JdbcTable})
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    keeps_versions: ClassVar[bool] = False

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the table's name, and the options of the joint."""
        product = product_of(options.get("url"))
        if not is_unexpanded(table):
            try:
                table_name(table, product.schema(options))
            except RivetError as error:
                diagnostic = error.diagnostics[0]
                yield Wrong(diagnostic.code, "table", diagnostic.message, diagnostic.remediation)
        yield from (product.wrong_target if is_written else product.wrong_source)(options, joint_options)

    @classmethod
    def refuses_write(cls, options: Mapping[str, Any], strategy: WriteStrategy) -> str | None:
        """Return why the database cannot do it."""
        return product_of(options.get("url")).refuses(strategy)

    @classmethod
    def in_one_commit(cls, options: Mapping[str, Any]) -> bool:
        """Return True: a transaction of the database publishes any number of tables."""
        return True

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the address of the database, the schema and the table."""
        url, schema = options.get("url", ""), options.get("schema", "")
        if any(is_unexpanded(part) for part in (url, schema, table)):
            return
        try:
            yield ("jdbc", str(url).partition("?")[0], *table_name(table, product_of(url).schema(options)))
        except RivetError:
            return  # reported as an error of the table itself

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the address of the database, the schema and the table."""
        return cls.written_locations(options, table)

    def __init__(self, spec: CatalogSpec, root: Path, environment: str | None = None) -> None:
        refuse_wrong_options(JdbcCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._connections = int(spec.options.get("connections", CONNECTIONS))
        self._product = product_of(spec.options["url"])
        self._database = self._product.database.of(spec.name, spec.options, root)
        self._schema = self._product.schema(spec.options)
        self._driver = str(spec.options.get("driver", self._product.driver))
        self._published = self._tables()
        if environment is not None:
            self._published = self._tables(environment, self._published)
        self._reader = self._published.reader
        self._declared = spec, root

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return the package of the JDBC driver; for an engine that runs its queries in the database, this."""
        if engine_type == "pyspark":
            return SessionNeeds(packages=(self._product.package,))
        queries = self._product.queries if engine_type == "postgres" else None
        return SessionNeeds(databases={self.name: queries(self._database)}) if queries is not None else SessionNeeds()

    def _tables(self, environment: str | None = None, base: PublishedTables | None = None) -> PublishedTables:
        schema, kind = self._schema, self._product.kind
        if environment is not None:
            schema = schema_of_environment(schema, environment, kind.longest_name)
        found: list[PublishedTables] = []
        reader = self._product.reader(self._database, lambda table: found[0].name(table), self._driver)
        tables = PublishedTables(
            self.name,
            self._database,
            kind,
            reader,
            Records(self._database, kind, schema),
            self._schema,
            self._connections,
            environment,
            base,
        )
        found.append(tables)
        return tables

    @property
    def environment_storage(self) -> DatabaseEnvironments | None:
        """The environments, each of which is a schema; None in an environment."""
        if self._published.base is not None:
            return None
        return DatabaseEnvironments(self._published, self._in_environment, self._snapshot_of)

    def _in_environment(self, name: str) -> tuple[HasTargets, PublishedTables]:
        catalog = JdbcCatalog(*self._declared, name)
        return catalog, catalog._published

    def _snapshot_of(self, tables: int, resolve: Callable[[str], Name]) -> Snapshot:
        reader = self._product.reader(self._database, resolve, self._driver)
        return self._product.snapshot(reader, tables, self._connections, self._declared[0].options)

    def snapshot(self, tables: int) -> Snapshot:
        """Return the tables at a snapshot that is taken now."""
        return self._product.snapshot(self._reader, tables, self._connections, self._declared[0].options)

    def relation(self, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the table, which is read by one query, so that all its rows are of one moment."""
        with self._database.connect(f"the table {table}") as connection:
            return self._reader.table(connection, table, options)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema:
        """Return the columns; those that cannot be read have no type."""
        types, unreadable = self._reader.columns(table, options)
        return tuple(Field(name, types.get(name)) for name in (*types, *unreadable))

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the published version, else the max of ``version_by``, or the database's counts of changes."""
        published = self._published.data_version(table) if not options else None
        if published is not None:
            return published
        with self._database.connect(f"the table {table}") as connection:
            name = self._published.name(table)
            return self._reader.data_version(connection, name, SourceOptions.of(options).version_by)

    def uri(self, table: str) -> str:
        """Return the address of the table."""
        return self._published.uri(self._published.name(table))

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables and views that the user may read; those of the catalog's schema without its name."""
        with self._database.connect("its tables") as connection:
            found = self._reader.tables(connection)
        names = [name if schema == self._schema else f"{schema}.{name}" for schema, name in found]
        return tuple(sorted(name for name in names if name.startswith(prefix)))

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> DatabaseTransaction:
        """Begin a version, whose rows are staged in tables of its own beside the table."""
        begun = self._published.begin(table)
        destination = replace(begun.destination, swaps=options.get(REPLACE_BY) == SWAP)
        return DatabaseTransaction(self._published, table, replace(begun, destination=destination), session)

    def check_batch(self, table: str, plan: WritePlan, columns: Schema, is_partitioned: bool) -> None:
        """Compare the columns with those of the table, as a run does."""
        given = plain_columns([(field.name, str(field.type)) for field in columns])
        self._published.check_batch(table, plan, given, is_partitioned)

    def current(self, table: str) -> Published | None:
        """Return the version that the last publication from here has made."""
        return self._published.current(table)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version of a run, which the database has stored in the transaction that published it."""
        return self._published.published_by(table, identity)

    def read(self, published: Published) -> JdbcTable:
        """Return the table, as long as that version is the current one: a database keeps no other."""
        return self._published.read(published)

    def errors_of(self, published: Published) -> JdbcTable | None:
        """Return the error table of the current version."""
        return self._published.errors_of(published)

    def evict(self, published: Published) -> None:
        """Drop the table."""
        self._published.evict(published)

    def existing(self, table: str, partitioned_by: Schema = ()) -> ExistingTable | None:
        """Return the table as it is now, if it was not published from here."""
        return self._published.existing(table)

    def adopt(self, table: str, partitioned_by: Schema = ()) -> Published | None:
        """Return the current version, which is the table as it is now if it was not published from here."""
        return self._published.adopt(table)

    def give_up(self, table: str) -> bool:
        """Forget the versions of a table."""
        return self._published.forget(table)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by a query of the database."""
        return self._published.max_of(published, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value that is stored beside the current version."""
        return self._published.watermark_override(published)

    def override_watermark(self, published: Published, override: Override) -> None:
        """Store the value beside the current version."""
        self._published.override_watermark(published, override)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the current version, and those that are withheld or staged."""
        return self._published.versions(table)

    def take_up(self, table: str, version: str) -> DatabaseTransaction:
        """Reopen a withheld version."""
        taken = self._published.take_up(table, version, WITHHELD)
        if taken is None:
            raise unknown_version(table, version, WITHHELD)
        return DatabaseTransaction(self._published, table, taken)

    def restage(self, table: str, version: str) -> DatabaseTransaction:
        """Raise RVT-408: a database keeps no older version."""
        message = f"'{table}' is in a database, which keeps no older version than the current one"
        raise RivetError("RVT-408", message, remediation="Bring it back from a backup of the database.")

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that a run has staged."""
        return self._published.staged_by(table, identity)

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Renew the heartbeat of a staged version."""
        return self._published.keep_alive(table, version, seconds)

    def keep_all_alive(self, versions: Set[str], seconds: float = 0.0) -> Set[str]:
        """Renew the heartbeats of staged versions by one statement."""
        return self._published.keep_all_alive(versions, seconds)

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> DatabaseTransaction:
        """Reopen a staged version."""
        taken = self._published.take_up(table, version, STAGED)
        if taken is None:
            raise no_staged_version(table, version)
        return DatabaseTransaction(self._published, table, taken)

    def withhold_staged(self, table: str, version: str) -> None:
        """Withhold a staged version, whose rows survive a crash of the database then."""
        transaction = self.take_up_staged(table, version)
        transaction.withhold(transaction.publication.version.identity)

    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish staged versions in one transaction of the database."""
        return publish_together(self._published, staged)  # type: ignore[arg-type]

    def building(self) -> tuple[str, ...]:
        """Return what runs are building, each as ``schema.table/version``."""
        return self._published.building()

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Drop the staged rows of dead runs."""
        return self._published.sweep(failed)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about whether the database can be reached, snapshots of it read, and tables published."""
        return self._product.examine(f"catalog {self.name}", self._database, self._schema, publishes)
