"""Projects with tables of a PostgreSQL database, and an engine without a JVM that reads these."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa

from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, JdbcTable, Relation
from rivet_dagster.model.relations import Files as FilesRelation
from rivet_dagster.model.storage import Projection
from support.duckdb_engine import DuckDBSession
from support.folders import PROFILES, Files
from support.postgres import Database

_OWN_ERROR = re.compile(r'"(RVT-\d{3}) ([^"]+)"')
_TYPES = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
"""Types of Arrow by the numbers of types in PostgreSQL."""
_NUMERIC = 1700


class DatabaseSession(DuckDBSession):
    """A session of DuckDB that reads tables of a database by psycopg."""

    def __init__(self, database: Database) -> None:
        super().__init__(frozenset({FilesRelation, ArrowRows, JdbcTable}), lambda: None)
        self._own = database

    def load(self, relation: Relation, projection: Projection | None = None) -> str:
        """Read the rows of a table."""
        if not isinstance(relation, JdbcTable):
            return super().load(relation, projection)
        return super().load(ArrowRows(*self._read(relation)), projection)

    def _read(self, relation: JdbcTable) -> tuple[pa.Schema, Any]:
        with _own_errors(), psycopg.connect(self._own.dsn) as connection:
            cursor = connection.execute(f"SELECT * FROM {relation.table}")
            described = [column for column in cursor.description or () if column.name not in relation.hidden]
            schema = pa.schema([(column.name, _type_of(column)) for column in described])
            values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(described)
        arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=False)]
        return schema, pa.table(arrays, schema=schema).to_reader


def _type_of(column: psycopg.Column) -> pa.DataType:
    if column.type_code == _NUMERIC:
        return pa.decimal128(column.precision or 38, column.scale or 0)
    return _TYPES[column.type_code]


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        found = _OWN_ERROR.search(str(error))
        if found is None:
            raise
        raise RivetError(found[1], found[2]) from error


def profiles(database: Database, /, **options: Any) -> dict[str, Any]:
    """Return profiles with a catalog `shop`, the database, beside the usual ones."""
    found = copy.deepcopy(PROFILES)
    shop = {"type": "jdbc", "url": database.jdbc, "user": database.user, "password": database.password, **options}
    found["default"]["catalogs"]["shop"] = shop
    found["default"]["engines"][0]["catalogs"].append("shop")
    return found


def source(table: str, **fields: Any) -> dict[str, Any]:
    """Return a source on a table of the database."""
    return {"type": "source", "catalog": "shop", "table": table, **fields}


def reading(database: Database, query: str, sources: dict[str, dict[str, Any]], /, **options: Any) -> Files:
    """Return a project that publishes the rows of a query of sources as the table `read`."""
    joint = f"-- rivet:catalog: lake\n{query}"
    files = {f"sources/{name}.yaml": content for name, content in sources.items()}
    return {"profiles.yaml": profiles(database, **options), "joints/read.sql": joint, **files}


def execute(database: Database, *statements: str) -> None:
    """Execute statements, each in a transaction of its own."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def rows(database: Database, query: str) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a query, as psycopg reads them."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()
