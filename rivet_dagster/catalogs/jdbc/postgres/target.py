"""A table that is written to: its columns, its unique indexes, and how it changes for a batch with other columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.jdbc.options import SourceOptions
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT, Column
from rivet_dagster.catalogs.jdbc.postgres.reading import read_table
from rivet_dagster.catalogs.jdbc.postgres.table import Table, lookup_table
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Unreadable
from rivet_dagster.sql.database_definitions import add_column, change_type, create_table, drop_column
from rivet_dagster.sql.database_writes import Name, WrittenColumn
from rivet_dagster.sql.write_strategies.trees import Columns

if TYPE_CHECKING:
    import psycopg

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""Types of new columns, by Spark's names."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"(?:var)?char\((\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")

_WITHOUT_EQUALITY = frozenset("json xml point line lseg box path polygon circle".split())
_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_FILLED = """
SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped AND (attidentity <> '' OR attgenerated <> '')
"""
_UNIQUE = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %(table)s AND i.indisunique AND i.indimmediate AND i.indisvalid
AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid
"""


@dataclass(frozen=True)
class TargetColumn:
    """A column that a batch can fill: as the database declares it, and Spark's type, None if Spark has none for it."""

    declared: Column
    spark_type: str | None
    unreadable: Unreadable | None = None


@dataclass(frozen=True)
class TargetTable:
    """An existing table: the columns that a batch can fill, by name, and the columns of each unique index.

    Identity and generated columns are left out: the database fills them.
    """

    table: Table
    columns: Mapping[str, TargetColumn]
    unique: frozenset[frozenset[str]]

    @property
    def spark_columns(self) -> Columns:
        """The columns with their Spark types, in order. Raises RVT-422 for one that Spark cannot read."""
        return tuple((name, _readable(self.table, name, column)) for name, column in self.columns.items())


@dataclass(frozen=True)
class Layout:
    """The columns that a batch is staged with, as Spark and as the database have them, and the changes of the table.

    ``changes`` are statements; those of a table that is replaced follow the removal of its rows.
    """

    spark: Columns
    columns: tuple[WrittenColumn, ...]
    changes: tuple[str, ...]

    def named(self, names: Sequence[str]) -> tuple[WrittenColumn, ...]:
        """Return the columns with these names, in any letter case. Raises RVT-513."""
        known = {column.name.lower(): column for column in self.columns}
        missing = [name for name in names if name.lower() not in known]
        if missing:
            raise RivetError("RVT-513", f"the batch has no such column: {', '.join(missing)}")
        return tuple(known[name.lower()] for name in names)


def find_target(connection: psycopg.Connection[Any], name: Name) -> TargetTable | None:
    """Return the table; None if there is none. Raises RVT-404 for a view, and what else has no rows of its own."""
    found = lookup_table(connection, name)
    if found is None:
        return None
    if found.kind not in ("r", "p"):
        message = f"{found} is a view or a foreign table, to which nothing is published"
        raise RivetError("RVT-404", message, remediation="Name another table in the sink's `table`.")
    columns, readable, unreadable = read_table(connection, found, SourceOptions())
    types = {column.selected.name: column.spark_type for column in readable}
    filled = {row[0] for row in connection.execute(_FILLED, {"table": found.number})}
    known = {
        column.name: TargetColumn(column, types.get(column.name), unreadable.get(column.name))
        for column in columns
        if column.name not in filled
    }
    unique = [row[0] for row in connection.execute(_UNIQUE, {"table": found.number})]
    return TargetTable(found, known, frozenset(frozenset(names) for names in unique))


def layout_of(name: Name, existing: TargetTable | None, wanted: Columns, replaces: bool) -> Layout:
    """Return how the table ``name`` gets the ``wanted`` columns of Spark, in their order.

    With ``replaces`` all of its rows are deleted before, and columns that are not wanted go. Raises RVT-422 for a type
    that the database has not, or for a column that Spark cannot read.
    """
    if existing is None:
        columns = tuple(_new(column, kind, None) for column, kind in wanted)
        made = create_table(name, [(column.name, column.type) for column in columns], DIALECT)
        return Layout(wanted, columns, (made,))
    spelled = {column.lower(): column for column in existing.columns}
    spark, written, changes = [], [], []
    for given, kind in wanted:
        column = spelled.get(given.lower(), given)
        known = existing.columns.get(column)
        of_table = _kept(existing.table, known, kind) if known is not None else None
        new = of_table or _new(column, kind, known)
        spark.append((column, kind))
        written.append(new)
        if known is None:
            changes.append(add_column(name, column, new.type, DIALECT))
        elif of_table is None:
            changes.append(change_type(name, column, new.type, DIALECT, without_rows=replaces))
    if replaces:
        kept = {column for column, _ in spark}
        changes = [drop_column(name, column, DIALECT) for column in existing.columns if column not in kept] + changes
    return Layout(tuple(spark), tuple(written), tuple(changes))


def database_type(spark_type: str) -> str | None:
    """Return the type of a new column; None for a type of Spark that the database has not.

    >>> database_type("decimal(10,2)"), database_type("array<int>"), database_type("map<string,int>")
    ('numeric(10,2)', 'integer[]', None)
    """
    if (digits := _DECIMAL.fullmatch(spark_type)) is not None:
        return f"numeric({digits[1]},{digits[2]})"
    if _TEXT.fullmatch(spark_type):
        return "text"
    if (array := _ARRAY.fullmatch(spark_type)) is not None:
        element = None if array[1].startswith(("array", "date", "time", "binary")) else database_type(array[1])
        return None if element is None else f"{element}[]"
    return _TYPES.get(spark_type)


def _kept(table: Table, column: TargetColumn, kind: str) -> WrittenColumn | None:
    """Return the column as it is, if values of the type ``kind`` of Spark are read from it as they were written."""
    declared = column.declared
    if _readable(table, declared.name, column) != kind and database_type(kind) != declared.type:
        return None
    base = declared.element or declared.base
    by_bytes = declared.base in _TEXTS
    return WrittenColumn(declared.name, declared.type, declared.type, base in _WITHOUT_EQUALITY, by_bytes)


def _new(name: str, kind: str, before: TargetColumn | None) -> WrittenColumn:
    type_ = database_type(kind)
    if type_ is None:
        message = f"the column '{name}' is of the type {kind}, which the database has not"
        raise RivetError("RVT-422", message, remediation="Cast it to another type, or publish its text: to_json(...).")
    declared = before.declared.type if before is not None else None
    return WrittenColumn(name, type_, declared, by_bytes=type_ == "text")


def _readable(table: Table, name: str, column: TargetColumn) -> str:
    if column.spark_type is not None:
        return column.spark_type
    why = column.unreadable.reason if column.unreadable is not None else "has a type that Spark has not"
    message = f"the column '{name}' of {table} {why}, so nothing can be published to it"
    remedy = "Have its type changed in the database, as to numeric(38, 9)."
    raise RivetError("RVT-422", message, remediation=remedy)
