"""A database of PostgreSQL for an engine whose queries it runs itself: connections, columns of results, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.jdbc.database import READER
from rivet_dagster.catalogs.jdbc.postgres.columns import read_columns, result_columns
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase
from rivet_dagster.errors import RivetError
from rivet_dagster.model.session_needs import ResultColumn

if TYPE_CHECKING:
    import psycopg

_OF_QUERIES = ("0A", "21", "22", "2F", "39", "42", "P0")
"""The beginnings of codes of errors in a query: in its text, and of values that it cannot compute."""
_OF_TARGETS = ("22001", "23")
"""The beginnings of codes of errors of rows that a table does not take."""
_RAISED = re.compile(r'"(RVT-\d{3}) ([^"]+)"')
"""An error that a query raises itself, as where a table has been published anew."""

_CENTS = "SELECT scale(0::money::numeric)"


class PostgresQueries:
    """The database of a catalog, as ``QueryDatabase`` has it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.url = database.url
        self.uri = database.uri

    @property
    def errors(self) -> type[Exception]:
        """The class of psycopg's errors. Raises RVT-123."""
        return self._database.errors

    def open(self) -> psycopg.Connection[Any]:
        """Return a new connection."""
        return self._database.open(READER)

    def columns(
        self, connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]
    ) -> tuple[ResultColumn, ...]:
        """Return the columns of a query without rows, with the types by which Spark reads them."""
        import psycopg

        cursor = psycopg.RawCursor(connection)
        cursor.execute(statement.encode(), values or None)
        result = cursor.pgresult
        assert result is not None
        described = [
            ((result.fname(n) or b"").decode(), result.ftype(n), result.fmod(n)) for n in range(result.nfields)
        ]
        columns = result_columns(connection, described)
        has_money = any(column.base == "money" for column in columns)
        (digits,) = (connection.execute(_CENTS).fetchone() or (2,)) if has_money else (2,)
        results = []
        for column in columns:  # one by one: several may have the same name
            readable, unreadable = read_columns([column], {}, "", int(digits))
            if readable:
                read = readable[0]
                results.append(
                    ResultColumn(column.name, read.spark_type or column.type, column.type, read.selected.cast)
                )
            else:
                results.append(ResultColumn(column.name, column.type, column.type, None, unreadable[column.name]))
        return tuple(results)

    def cancel(self, connection: psycopg.Connection[Any]) -> None:
        """Cancel what the server computes for the connection."""
        connection.cancel_safe(timeout=2.0)

    @contextmanager
    def translate_errors(self, what: str) -> Iterator[None]:
        """Turn errors of connecting into RVT-403."""
        with self._database.translate_errors(what):
            yield

    def translated(self, error: Any, table: str | None = None, line: int | None = None) -> RivetError:
        """Return the error of a query, or of a statement that adds its rows to a table."""
        from psycopg import errors

        raised = _RAISED.search(str(error))
        if raised is not None:
            return RivetError(raised[1], raised[2])
        if isinstance(error, errors.DataError) and error.sqlstate is None:  # a value that Python has not
            return RivetError("RVT-503", str(error))
        state = error.sqlstate or ""
        is_of_target = table is not None and state.startswith(_OF_TARGETS)
        if isinstance(error, errors.InsufficientPrivilege) or is_of_target or not state.startswith(_OF_QUERIES):
            about = f"catalog '{self._database.catalog}': " + (f"'{table}'" if table is not None else "a query")
            return self._database.refused(about, error)
        hint = f" ({error.diag.message_hint})" if error.diag.message_hint else ""
        return RivetError("RVT-503", f"{error.diag.message_primary}{hint}", line=line)
