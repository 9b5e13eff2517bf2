"""The engine ``postgres``: its options, the database of its sessions, and what the compiler refuses there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import is_unexpanded, refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model import convert
from rivet_dagster.model.finding import Finding, broken, in_order
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import JdbcTable, Kinds
from rivet_dagster.model.session_needs import QueryDatabase, SessionNeeds
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.postgres.spark_statements import POSTGRES, NotTranslatedError, spark_statement_for_postgres

if TYPE_CHECKING:
    from rivet_dagster.engines.postgres.session import PostgresSession

_CATALOG, _URL = "jdbc", "jdbc:postgresql:"
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "dialect": convert.Choice(POSTGRES),
    "max_fusion_depth": convert.whole(1),
}
_OF_CONNECTIONS = ("partition_by", "partitions", "fetch_size")
"""Options of a source by which its rows are shared out among connections."""
_SETTINGS = {
    # Those with which Spark reads the database: the text of an interval, and the day of a moment, depend on them.
    "TimeZone": "UTC",
    "IntervalStyle": "iso_8601",
    # Has the server stop what it computes for a process that has died.
    "client_connection_check_interval": "2s",
}


class PostgresEngine(Engine):
    """Queries in the database of a catalog ``jdbc``, from which no row travels to be published there.

    Options: ``dialect``, the SQL of joints that do not name theirs (``postgres``), ``config``, settings of the database
    for its queries (``work_mem``, ``TimeZone``), and ``max_fusion_depth``.
    """

    type: ClassVar[str] = POSTGRES
    options: ClassVar[frozenset[str]] = frozenset({"config", *_CONVERTERS})
    reads: ClassVar[Kinds] = frozenset({JdbcTable})
    writes: ClassVar[Kinds] = frozenset({JdbcTable})
    dialect: ClassVar[str] = POSTGRES

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key.

        >>> PostgresEngine.check({"dialect": "spark"})
        {'dialect': "must be one of postgres, not 'spark'"}
        """
        wrong = {}
        for key in _CONVERTERS.keys() & options.keys():
            try:
                _CONVERTERS[key](options[key])
            except ValueError as error:
                wrong[key] = str(error)
        config = options.get("config", {})
        if not isinstance(config, Mapping):
            return wrong | {"config": f"must be a mapping, not {convert.show(config)}"}
        for key, value in config.items():
            try:
                if not isinstance(key, str) or not _SETTING.match(key):
                    raise ValueError("is no name of a setting of PostgreSQL")
                if not is_unexpanded(value):
                    convert.setting(value)
            except ValueError as error:
                wrong["config"] = f"{key} {error}"
        return wrong

    @classmethod
    def refuses_catalogs(cls, catalogs: Sequence[CatalogSpec]) -> str | None:
        """Return why it cannot use these catalogs: it needs one, a database of PostgreSQL.

        >>> PostgresEngine.refuses_catalogs([CatalogSpec("lake", "filesystem")])
        "must name one catalog of the type jdbc, a PostgreSQL database, and 'lake' is of the type filesystem"
        """
        needed = "must name one catalog of the type jdbc, a PostgreSQL database"
        if len(catalogs) != 1:
            return f"{needed}, and it names {', '.join(spec.name for spec in catalogs) or 'none'}"
        (catalog,) = catalogs
        if catalog.type != _CATALOG:
            return f"{needed}, and '{catalog.name}' is of the type {catalog.type}"
        url = catalog.options.get("url")
        if is_unexpanded(url) or url is None or str(url).startswith(_URL):
            return None
        return f"{needed}, and '{catalog.name}' is another database"

    @classmethod
    def refuses_check(cls, sql: str) -> str | None:
        """Return what of a check's SQL PostgreSQL may understand otherwise.

        >>> PostgresEngine.refuses_check("SELECT COUNT_IF(NOT (LOWER(name) = 'a')) AS n FROM a")
        'LOWER'
        """
        try:
            spark_statement_for_postgres(sql, {})
        except NotTranslatedError as error:
            return str(error)
        except SqlError:
            return "a query that cannot be parsed"
        return None

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return the options of a source that are about connections, of which there is none."""
        for key in () if is_written else _OF_CONNECTIONS:
            if key in joint_options:
                message = f"reads tables within the database, so that `{key}` has no meaning"
                yield Wrong("RVT-204", f"options.{key}", message, "Leave it out.")

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        refuse_wrong_options(PostgresEngine, f"engine '{spec.name}'", spec.options)
        self.name = spec.name
        self._check_interrupt = check_interrupt
        databases = {catalog: database for need in needs for catalog, database in need.databases.items()}
        self._databases = [databases[catalog] for catalog in spec.catalogs if catalog in databases]
        config = {key: convert.setting(value) for key, value in spec.options.get("config", {}).items()}
        names = {name.lower() for name in config}
        self._settings = {**{name: value for name, value in _SETTINGS.items() if name.lower() not in names}, **config}

    @property
    def _database(self) -> QueryDatabase:
        if len(self._databases) != 1:
            message = f"engine '{self.name}': `catalogs` must name one catalog of the type jdbc, a PostgreSQL database"
            raise RivetError("RVT-104", message)
        return self._databases[0]

    def import_packages(self) -> None:
        """Import psycopg. Raises RVT-123."""
        _ = self._database.errors

    def session(self) -> PostgresSession:
        """Begin a session, which connects with its first query."""
        self.import_packages()
        from rivet_dagster.engines.postgres.session import PostgresSession

        return PostgresSession(self._database, self._settings, self._check_interrupt)

    def examine(self) -> Iterable[Finding]:
        """Return findings about whether the database runs a query with the engine's settings."""
        subject = f"engine {self.name}"
        try:
            with self.session() as session:
                session.rows_of("SELECT 1 AS one")
        except RivetError as error:
            yield from broken(subject, error)
            return
        yield in_order(subject, f"queries run in {self._database.uri}")
