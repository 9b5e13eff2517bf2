"""A stand-in for a SQL warehouse of Databricks: the interface of its connector, over a Spark in this process.

It has what the engine uses of ``databricks.sql`` and answers like it: statements run when they are executed, parameters
are texts with a type, a result without rows has no types, and errors are those of the connector.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from databricks.sql import exc

SETTINGS = {"TIMEZONE": "spark.sql.session.timeZone", "ANSI_MODE": "spark.sql.ansi.enabled"}
"""Parameters of a warehouse's sessions, and the settings of Spark that they are."""

_numbers = itertools.count(1)


class Warehouse:
    """The warehouse behind ``connect``, which replaces ``databricks.sql.connect``; ``token`` is the one it takes."""

    def __init__(self, spark: Any, token: str) -> None:
        self.spark = spark
        self.token = token
        self.statements: list[str] = []
        self.open: set[Connection] = set()

    def connect(
        self, server_hostname: str, http_path: str, access_token: str | None = None, **arguments: Any
    ) -> Connection:
        """Return a connection."""
        if access_token != self.token:
            raise exc.RequestError(f"Error during request to server: the token {access_token} is not valid")
        connection = Connection(self, arguments.get("session_configuration") or {})
        self.open.add(connection)
        return connection


class Connection:
    """A connection, with a session of its own."""

    def __init__(self, warehouse: Warehouse, settings: dict[str, str]) -> None:
        self.warehouse = warehouse
        self.spark = warehouse.spark.newSession()
        for name, value in settings.items():
            self.spark.conf.set(SETTINGS[name], value)

    def cursor(self) -> Cursor:
        """Return a cursor."""
        return Cursor(self)

    def close(self) -> None:
        """End the session."""
        self.warehouse.open.discard(self)


class Cursor:
    """A cursor; ``cancel`` is called from another thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._tag = f"stand-in-{next(_numbers)}"
        self._rows: pa.Table = pa.table({})
        self._next = 0

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, operation: str, parameters: list[Any] | None = None) -> Cursor:
        """Run a statement to its end."""
        if self.connection not in self.connection.warehouse.open:
            raise exc.InterfaceError("Cannot perform operation, connection is closed")
        self.connection.warehouse.statements.append(operation)
        spark = self.connection.spark
        spark.sparkContext.addJobTag(self._tag)
        try:
            with _errors_of_the_server():
                self._rows = spark.sql(operation, args=_bound(parameters or [])).toArrow()
        finally:
            spark.sparkContext.removeJobTag(self._tag)
        self._next = 0
        return self

    def fetchmany_arrow(self, size: int) -> pa.Table:
        """Return the next rows."""
        rows = self._rows.slice(self._next, size)
        self._next += rows.num_rows
        return rows if rows.num_rows else pa.table({name: pa.nulls(0) for name in dict.fromkeys(rows.column_names)})

    def fetchall_arrow(self) -> pa.Table:
        """Return the rows that have not been fetched."""
        return self.fetchmany_arrow(self._rows.num_rows)

    def cancel(self) -> None:
        """Cancel the statement that runs."""
        self.connection.spark.sparkContext.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Forget the rows."""
        self._rows = pa.table({})


_LITERALS = {
    "TINYINT": "{}Y",
    "SMALLINT": "{}S",
    "INT": "{}",
    "BIGINT": "{}L",
    "FLOAT": "{}F",
    "DOUBLE": "{}D",
    "BOOLEAN": "{}",
    "DATE": "DATE'{}'",
    "TIMESTAMP": "TIMESTAMP_LTZ'{}'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'{}'",
    "VOID": "NULL",
}


def _bound(parameters: list[Any]) -> dict[str, Any]:
    """Return parameters as the connector sends them, each a text and its type, as literals of Spark's SQL."""
    from pyspark.sql import functions

    bound = {}
    for sent in (parameter.as_tspark_param(named=True) for parameter in parameters):
        text = None if sent.value is None else sent.value.stringValue
        if sent.type == "STRING":
            bound[sent.name] = functions.lit(text)
        else:
            literal = "{}BD" if sent.type.startswith("DECIMAL") else _LITERALS[sent.type]
            bound[sent.name] = functions.expr(literal.format(text))
    return bound


@contextmanager
def _errors_of_the_server() -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise exc.ServerOperationError(str(error), {"operation-id": "1", "diagnostic-info": str(error)}) from None
