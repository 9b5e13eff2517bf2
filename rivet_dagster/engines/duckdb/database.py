"""The database of an engine, in this process's memory, and what each session has of its own in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import duckdb

from rivet_dagster.engines.duckdb.types import literal, quoted
from rivet_dagster.errors import RivetError

_SETTINGS = "Correct the engine's options and its `config`; docs/duckdb.md lists them."

T = TypeVar("T")

_MOST_FOUND = 256

NO_SETTINGS: Mapping[str, str] = {}

_OF_CONNECTIONS = {
    "enable_progress_bar": "true",
    "enable_progress_bar_print": "false",
    "enable_profiling": "no_output",
}
"""Settings by which a connection tells the progress and the profile of its queries, and prints nothing."""


class MemoryDatabase:
    """A database in memory, which spills to ``temp_directory``; it ends with the last of its connections.

    ``settings`` are those that each connection has for itself, such as `TimeZone`, and others of the whole database.
    """

    def __init__(self, config: Mapping[str, str], settings: Mapping[str, str] = NO_SETTINGS) -> None:
        folder = config.get("temp_directory")
        self._of_connections = dict(_OF_CONNECTIONS)
        try:
            if folder:
                Path(folder).parent.mkdir(parents=True, exist_ok=True)
            self._connection = duckdb.connect(":memory:", config=dict(config))
            for name, value in settings.items():
                if _is_global(self._connection, name, value):
                    continue
                self._connection.execute(_set(name, value))
                self._of_connections[name] = value
        except (duckdb.Error, OSError) as error:
            raise RivetError("RVT-502", f"DuckDB cannot start: {error}", remediation=_SETTINGS) from error
        self._numbers = itertools.count(1)
        self._lock = Lock()
        self._found: dict[Hashable, Any] = {}

    def cursor(self) -> Any:
        """Return a connection of its own to the database."""
        with self._lock:
            connection = self._connection.cursor()
        for name, value in self._of_connections.items():
            connection.execute(_set(name, value))
        return connection

    def find_once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what ``find`` has returned for an equal ``key`` before, as long as it is remembered."""
        known: T | None = self._found.get(key)
        if known is not None:
            return known
        found = find()
        if len(self._found) >= _MOST_FOUND:
            self._found = {}
        self._found[key] = found
        return found

    def new_name(self) -> str:
        """Return a name that no session has, of a schema that does not exist yet."""
        return f"rivet_session_{next(self._numbers)}"

    def make(self, schema: str) -> None:
        """Make a schema."""
        with self._lock:
            self._connection.execute(f"CREATE SCHEMA {quoted(schema)}")

    def drop(self, schema: str) -> None:
        """Drop a schema with all that is in it."""
        with self._lock:
            self._connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE")


def _is_global(connection: Any, name: str, value: str) -> bool:
    """Set a setting for the whole database, and return whether it has one for it."""
    try:
        connection.execute(_set(name, value, "GLOBAL "))
    except duckdb.Error as error:
        if "global" not in str(error):
            raise
        return False
    return True


def _set(name: str, value: str, scope: str = "") -> str:
    return f"SET {scope}{name} = {literal(value)}"
