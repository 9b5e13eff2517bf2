"""MariaDB as a database in which tables are published."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from rivet_dagster.catalogs.jdbc.database import LOCK_SECONDS, Connection, Database
from rivet_dagster.catalogs.jdbc.mariadb.columns import MariadbColumn
from rivet_dagster.catalogs.jdbc.mariadb.connection import ROWS
from rivet_dagster.catalogs.jdbc.mariadb.copying import insert_rows
from rivet_dagster.catalogs.jdbc.mariadb.reading import VIEW, lookup_table, read_table
from rivet_dagster.catalogs.jdbc.options import SourceOptions
from rivet_dagster.catalogs.jdbc.product import (
    DatabaseKind,
    RecordTexts,
    TargetColumn,
    TargetTable,
    Task,
    nothing_is_published_to,
)
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT, copy_rows
from rivet_dagster.sql.database_definitions import quote_name, quote_text
from rivet_dagster.sql.database_trees import Name, WrittenColumn
from rivet_dagster.sql.mariadb import DIALECT, EXACT

_TEXT = f"longtext {EXACT}"

_TYPES = {
    "boolean": "tinyint(1)",
    "tinyint": "tinyint(4)",
    "smallint": "smallint(6)",
    "int": "int(11)",
    "bigint": "bigint(20)",
    "float": "float",
    "double": "double",
    "string": _TEXT,
    "binary": "longblob",
    "date": "date",
    "timestamp": "timestamp(6)",
    "timestamp_ntz": "datetime(6)",
}
"""Types of new columns, by Spark's names."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_DIGITS_BEHIND = 30
_CHARACTERS = re.compile(r"(?:var)?char\((\d+)\)")

_KEY = f"varchar(255) {EXACT}"
_RECORDS = RecordTexts(
    create=(
        f"CREATE TABLE IF NOT EXISTS {{schema}}.rivet_versions (version {_KEY} PRIMARY KEY, "
        f"table_name {_KEY} NOT NULL, state {_KEY} NOT NULL, number bigint, "
        f"upon {_KEY}, identity {_TEXT} NOT NULL DEFAULT '', "
        f"made_by {_TEXT} NOT NULL DEFAULT '', published_at datetime(6), manifest {_TEXT}, \"write\" {_TEXT}, "
        f"errors {_KEY}, watermark {_TEXT}, built_upon {_KEY}, UNIQUE (table_name, number), "
        "INDEX (state), INDEX (errors), INDEX (table_name, published_at)) ENGINE = InnoDB",
        f"CREATE TABLE IF NOT EXISTS {{schema}}.rivet_staged (table_schema {_KEY}, table_name {_KEY}, "
        f"version {_KEY} NOT NULL, is_open boolean NOT NULL DEFAULT true, PRIMARY KEY (table_schema, table_name)) "
        "ENGINE = InnoDB",
        f"CREATE TABLE IF NOT EXISTS {{schema}}.rivet_heartbeats (version {_KEY} PRIMARY KEY, "
        "sent datetime(6) NOT NULL) ENGINE = InnoDB",
    ),
    create_environments=f"CREATE TABLE IF NOT EXISTS {{table}} (name {_KEY} PRIMARY KEY, profile {_TEXT} NOT NULL, "
    f"created_at datetime(6) NOT NULL, used_at datetime(6) NOT NULL, state {_KEY} NOT NULL) ENGINE = InnoDB",
    exists="SELECT count(*) FROM information_schema.tables WHERE table_schema = %s "
    "AND table_name IN ('rivet_versions', 'rivet_staged', 'rivet_heartbeats')",
    now="sysdate(6)",
    share="LOCK IN SHARE MODE",
)

_UNIQUE = (
    "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name = %s AND non_unique = 0 ORDER BY index_name, seq_in_index"
)
_COMMENT = "SELECT schema_comment FROM information_schema.schemata WHERE schema_name = %s"
_SIZE = "SELECT data_length FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"

_INDEXED = 190
"""How many characters of keys an index has at most."""
_LENGTH = re.compile(r"(?:var)?(?:char|binary)\(\d{3,}\)")

_NO_TABLE = "1146"
_WITH_VALUES = frozenset({"1062", "1292", "1366"})


class MariaKind(DatabaseKind):
    """MariaDB: every change of a table commits the transaction, and executors INSERT rows."""

    dialect: ClassVar[str] = DIALECT
    records: ClassVar[RecordTexts] = _RECORDS
    changes_tables_in_transactions: ClassVar[bool] = False
    has_unlogged_tables: ClassVar[bool] = False
    upserts: ClassVar[bool] = False
    longest_name: ClassVar[int] = 64

    def has_table(self, connection: Connection, name: Name) -> bool:
        """Return whether there is a table or view of that name."""
        return lookup_table(connection, name) is not None

    def find_target(self, connection: Connection, name: Name) -> TargetTable | None:
        """Return the table; None if there is none. Raises RVT-404 for a view."""
        found = lookup_table(connection, name)
        if found is None:
            return None
        if found == VIEW:
            raise nothing_is_published_to(".".join(name))
        columns, readable, unreadable = read_table(connection, name, SourceOptions())
        types = {column.selected.name: column.spark_type for column in readable}
        known = {
            column.name: TargetColumn(_written(column), types.get(column.name), unreadable.get(column.name))
            for column in columns
            if not column.is_filled
        }
        unique: dict[str, set[str]] = {}
        partly = set()
        for index, column_name, part in connection.execute(_UNIQUE, name):
            unique.setdefault(index, set()).add(column_name)
            partly |= {index} if part is not None else set()
        whole = frozenset(frozenset(names) for index, names in unique.items() if index not in partly)
        return TargetTable(name, known, whole)

    def type_of(self, spark_type: str) -> str | None:
        """Return the type of a new column.

        >>> MariaKind().type_of("decimal(10,2)"), MariaKind().type_of("array<int>")
        ('decimal(10,2)', None)
        """
        if (digits := _DECIMAL.fullmatch(spark_type)) is not None:
            return f"decimal({digits[1]},{digits[2]})" if int(digits[2]) <= _MOST_DIGITS_BEHIND else None
        return _TEXT if _CHARACTERS.fullmatch(spark_type) else _TYPES.get(spark_type)

    def new_column(self, name: str, type_: str, before: str | None) -> WrittenColumn:
        """Return a new column, whose texts are compared exactly."""
        return WrittenColumn(name, type_, before)

    def copy_task(self, database: Database, name: Name, columns: Sequence[str], fence: str) -> Task:
        """Return the task that copies rows by INSERT."""
        table = ".".join(quote_name(part, DIALECT) for part in name)
        names = ", ".join(quote_name(column, DIALECT) for column in [ATTEMPT, *columns])
        insert = f"INSERT INTO {table} ({names}) VALUES "
        return partial(copy_rows, partial(insert_rows, database.arguments, insert, fence))

    def is_gone(self, state: str) -> bool:
        """Return whether it is ER_NO_SUCH_TABLE."""
        return state == _NO_TABLE

    def is_about_row(self, state: str) -> bool:
        """Return whether it is an error about values, or the violation of a constraint."""
        return int(state) in ROWS

    def shows_values(self, state: str) -> bool:
        """Return whether the message quotes a value."""
        return state in _WITH_VALUES

    def analyze(self, connection: Connection, name: Name) -> None:
        """ANALYZE the table."""
        connection.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {'.'.join(quote_name(part, DIALECT) for part in name)}")

    def index_keys(self, connection: Connection, name: Name, keys: Sequence[WrittenColumn]) -> None:
        """Make an index: without one each row of one table is compared with each of the other."""
        longest = _INDEXED // len(keys)
        parts = [f"{quote_name(key.name, DIALECT)}{f'({longest})' if _is_long(key.type) else ''}" for key in keys]
        table = ".".join(quote_name(part, DIALECT) for part in name)
        connection.execute(f"CREATE INDEX rivet_keys ON {table} ({', '.join(parts)})")

    def bytes_of(self, connection: Connection, name: Name) -> int:
        """Return the size of the table without its indexes, as the database estimates it."""
        (size,) = connection.execute(_SIZE, name).fetchone() or (0,)
        return int(size or 0)

    def keep(self, connection: Connection, name: Name) -> None:
        """Do nothing: every table survives a crash."""

    def limit_locks(self, connection: Connection) -> None:
        """Limit the waits for rows and for tables."""
        limits = f"innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}"
        connection.execute(f"SET SESSION {limits}")

    def swap(self, connection: Connection, target: Name, rows: Name) -> None:
        """Refuse it: the compiler has done so before."""
        raise NotImplementedError("RENAME TABLE commits the transaction")

    def schema_comment(self, connection: Connection, schema: str) -> str | None:
        """Return the comment of the database: a schema is a database there."""
        row = connection.execute(_COMMENT, (schema,)).fetchone()
        return None if row is None else str(row[0] or "")

    def create_schema(self, connection: Connection, schema: str, comment: str) -> None:
        """CREATE DATABASE."""
        attributes = f"CHARACTER SET utf8mb4 COMMENT {quote_text(comment, DIALECT)}"
        connection.execute(f"CREATE DATABASE {quote_name(schema, DIALECT)} {attributes}")

    def drop_schema(self, connection: Connection, schema: str) -> None:
        """DROP DATABASE."""
        connection.execute(f"DROP DATABASE {quote_name(schema, DIALECT)}")


def _is_long(type_: str) -> bool:
    return type_.partition(" ")[0].endswith(("text", "blob")) or (_LENGTH.match(type_) is not None)


def _written(column: MariadbColumn) -> WrittenColumn:
    type_: Any = column.declared
    return WrittenColumn(column.name, type_, type_, by_bytes=column.is_text, loose=column.is_loose)
