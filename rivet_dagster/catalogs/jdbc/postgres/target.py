"""A table of PostgreSQL that is written to, and the types of its new columns."""

from __future__ import annotations

import re

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.options import SourceOptions
from rivet_dagster.catalogs.jdbc.postgres.columns import Column
from rivet_dagster.catalogs.jdbc.postgres.reading import read_table
from rivet_dagster.catalogs.jdbc.postgres.table import lookup_table
from rivet_dagster.catalogs.jdbc.published.target import TargetColumn, TargetTable, nothing_is_published_to
from rivet_dagster.sql.database_trees import Name, WrittenColumn

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


def find_target(connection: Connection, name: Name) -> TargetTable | None:
    """Return the table; None if there is none. Raises RVT-404 for a view, and what else has no rows of its own."""
    found = lookup_table(connection, name)
    if found is None:
        return None
    if found.kind not in ("r", "p"):
        raise nothing_is_published_to(found)
    columns, readable, unreadable = read_table(connection, found, SourceOptions())
    types = {column.selected.name: column.spark_type for column in readable}
    filled = {row[0] for row in connection.execute(_FILLED, {"table": found.number})}
    known = {
        column.name: TargetColumn(_written(column), types.get(column.name), unreadable.get(column.name))
        for column in columns
        if column.name not in filled
    }
    # Of a table with partitions the database does not tell which rows an upsert has inserted.
    plain = found.kind == "r"
    unique = [row[0] for row in connection.execute(_UNIQUE, {"table": found.number})] if plain else []
    return TargetTable(found.parts, known, frozenset(frozenset(names) for names in unique))


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


def _written(declared: Column) -> WrittenColumn:
    base = declared.element or declared.base
    by_bytes = declared.base in _TEXTS
    return WrittenColumn(declared.name, declared.type, declared.type, base in _WITHOUT_EQUALITY, by_bytes)
