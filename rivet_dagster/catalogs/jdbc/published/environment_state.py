"""The state of an environment of a database, and the schema that it is.

The schema is called ``<schema>__<environment>``, and its comment says whose it is: only then it is ever dropped.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from rivet_dagster.catalogs.environments.state import DROPPED, OPEN, EnvironmentState, StateOfEnvironment
from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.product import ENVIRONMENT
from rivet_dagster.catalogs.jdbc.published.published_tables import PublishedTables
from rivet_dagster.errors import RivetError
from rivet_dagster.sql.database_definitions import quote_name

_TABLE = "rivet_environments"


def schema_of_environment(schema: str, environment: str, longest: int) -> str:
    """Return the schema of an environment of a catalog with this schema, of at most ``longest`` bytes.

    >>> schema_of_environment("shop", "pr-7", 63)
    'shop__pr-7'
    >>> schema_of_environment("shop", "x" * 64, 63)
    'shop__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_54246d2a34d1'
    """
    name = f"{schema}__{environment}"
    if len(name.encode()) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name.encode()[: longest - 13].decode(errors='ignore')}_{digest}"


@dataclass(frozen=True)
class DatabaseState(StateOfEnvironment[EnvironmentState]):
    """The state of the environment ``name``, a row of ``rivet_environments`` beside the tables of the base."""

    base: PublishedTables
    name: str

    def state(self) -> EnvironmentState | None:
        """Return the state; None if there is no such environment."""
        with self.base.database.connect("its environments") as connection:
            return self._state(connection)

    def create(self, profile: str) -> None:
        """Make the environment, and the schema that it is.

        Until there is the schema it counts as dropped: of a creation that is interrupted the sweep removes the rest.
        """
        with self._writing() as connection:
            self.base.records.create(connection)
            with connection.transaction():
                connection.execute(self._sql(self.base.kind.records.create_environments))
                self._add(connection, profile)
                self._create_schema(connection)
                query = (
                    "UPDATE {table} SET state = %s, profile = %s, created_at = {now}, used_at = {now} "
                    "WHERE name = %s AND state = %s"
                )
                connection.execute(self._sql(query), (OPEN, profile, self.name, DROPPED))

    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state, unless it is another one by now. Raises RVT-415."""
        with self._writing() as connection:
            if self._state(connection) is None:
                raise self._missing()
            query, values = "UPDATE {table} SET state = %s WHERE name = %s", (state, self.name)
            if instead_of is None:
                connection.execute(self._sql(query), values)
            else:
                connection.execute(self._sql(f"{query} AND state = %s"), (*values, instead_of))

    def use(self, state: EnvironmentState) -> None:
        """Record that it is used now."""
        with self._writing() as connection:
            connection.execute(self._sql("UPDATE {table} SET used_at = {now} WHERE name = %s"), (self.name,))

    def remove(self) -> None:
        """Forget the environment."""
        with self._writing() as connection:
            connection.execute(self._sql("DELETE FROM {table} WHERE name = %s"), (self.name,))

    def names(self) -> list[str]:
        """Return the names of all environments beside the base."""
        with self.base.database.connect("its environments") as connection:
            if not self._exist(connection):
                return []
            return [name for (name,) in connection.execute(self._sql("SELECT name FROM {table} ORDER BY 1"))]

    @property
    def schema(self) -> str:
        """The schema of the environment."""
        return schema_of_environment(self.base.schema, self.name, self.base.kind.longest_name)

    def drop_schema(self) -> None:
        """Drop the schema with all that is in it, if it is one of environments."""
        with self._writing() as connection:
            if self.base.kind.schema_comment(connection, self.schema) == self._comment:
                self.base.kind.drop_schema(connection, self.schema)

    @property
    def _comment(self) -> str:
        return f"{ENVIRONMENT}: {self.name}"

    def _state(self, connection: Connection) -> EnvironmentState | None:
        if not self._exist(connection):
            return None
        query = self._sql("SELECT profile, created_at, used_at, state FROM {table} WHERE name = %s")
        row = connection.execute(query, (self.name,)).fetchone()
        if row is None:
            return None
        profile, created, used, state = row
        return EnvironmentState(profile, _text(created), _text(used), state)

    def _add(self, connection: Connection, profile: str) -> None:
        query = "INSERT INTO {table} (name, profile, created_at, used_at, state) VALUES (%s, %s, {now}, {now}, %s)"
        try:
            with connection.transaction():
                connection.execute(self._sql(query), (self.name, profile, DROPPED))
        except self.base.database.errors as error:
            if not self.base.database.is_duplicate(error):
                raise

    def _create_schema(self, connection: Connection) -> None:
        """Make the schema. Raises RVT-404 for one that somebody else has made."""
        comment = self.base.kind.schema_comment(connection, self.schema)
        if comment is None:
            self.base.kind.create_schema(connection, self.schema, self._comment)
        elif comment != self._comment:
            message = f"the environment '{self.name}' would be the schema {self.schema}, which somebody else has made"
            raise RivetError("RVT-404", message, remediation="Give the environment another name.")

    def _exist(self, connection: Connection) -> bool:
        return self.base.kind.has_table(connection, (self.base.schema, _TABLE))

    def _writing(self) -> AbstractContextManager[Connection]:
        return self.base.database.connect_to_write(f"the environment {self.name}")

    def _sql(self, text: str) -> str:
        kind = self.base.kind
        table = ".".join(quote_name(part, kind.dialect) for part in (self.base.schema, _TABLE))
        return text.format(table=table, now=kind.records.now)


def _text(moment: datetime) -> str:
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
