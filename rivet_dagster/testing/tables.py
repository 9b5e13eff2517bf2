"""Tables of the conformance suite: written by a transaction, and read as sorted rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction, WriteContext
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.testing.plan_cases.case import COLUMNS, STARTED, fields

TABLE = "orders"

Rows = Sequence[tuple[Any, ...]]


def skip_unless_written(catalog: HasTargets, plan: WritePlan) -> None:
    """Skip the test of a plan that the catalog does not have."""
    if type(plan) not in catalog.write_plans:
        pytest.skip(f"{catalog.type} does not carry out {type(plan).__name__}")


def write(
    catalog: HasTargets,
    session: EngineSession,
    plan: WritePlan,
    rows: Rows,
    identity: str,
    started: datetime = STARTED,
    columns: str = COLUMNS,
) -> Published:
    """Write a batch and publish it."""
    with catalog.begin(TABLE, session) as transaction:
        fill(transaction, session, plan, rows, started, columns)
        return transaction.commit(identity)


def fill(
    transaction: TableTransaction,
    session: EngineSession,
    plan: WritePlan,
    rows: Rows,
    started: datetime = STARTED,
    columns: str = COLUMNS,
) -> None:
    """Write a batch."""
    transaction.write(plan, session.from_value(arrow_table(rows, columns)), WriteContext(started=started))


def write_before(
    catalog: HasTargets, session: EngineSession, plan: WritePlan, rows: Rows | None, columns: str
) -> Published | None:
    """Write the table that a case begins with, without the engine where that goes; None is no table."""
    if rows is None:
        return None
    with catalog.begin(TABLE, session) as transaction:
        if plan != ReplaceAll() or not transaction.put(arrow_table(rows, columns).to_reader()):
            fill(transaction, session, plan, rows, columns=columns)
        return transaction.commit("before")


def arrow_table(rows: Rows, columns: str) -> pa.Table:
    """Return ``rows`` with names and types as DDL."""
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in fields(columns)])
    values = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)


def arrow_type(kind: str) -> pa.DataType:
    """Return Arrow's type for one of SQL.

    >>> arrow_type("DECIMAL(5,2)"), arrow_type("TIMESTAMP")
    (Decimal128Type(decimal128(5, 2)), TimestampType(timestamp[us, tz=UTC]))
    """
    if kind.startswith("DECIMAL"):
        precision, scale = kind.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES[kind]


def columns_of(table: pa.Table) -> str:
    """Return the columns of a table as DDL, whatever the zone in which an engine shows times.

    >>> columns_of(arrow_table([], "id BIGINT, net DECIMAL(5,2), at TIMESTAMP"))
    'id BIGINT, net DECIMAL(5,2), at TIMESTAMP'
    """
    return ", ".join(f"{field.name} {_kind_of(field.type)}" for field in table.schema)


def _kind_of(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        type_ = _TYPES["TIMESTAMP"]
    return next((kind for kind, known in _TYPES.items() if known == type_), str(type_))


def rows_of(catalog: HasTargets, session: EngineSession) -> list[tuple[Any, ...]]:
    """Return the rows that readers see."""
    published = catalog.current(TABLE)
    assert published is not None
    return read(session, catalog.read(published))


def read(session: EngineSession, relation: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a relation, ordered by their values."""
    return in_order(session.to_arrow(session.load(relation)))


def in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table, ordered by their values."""
    return sort([tuple(row.values()) for row in table.to_pylist()])


def sort(rows: Rows) -> list[tuple[Any, ...]]:
    """Return the rows ordered by their values, NULLs first; equal values have one form."""
    plain = [tuple(map(_plain, row)) for row in rows]
    return sorted(plain, key=lambda row: [(value is not None, str(value)) for value in row])


def _plain(value: Any) -> Any:
    """Times in UTC, one zero, and a text for what is not a number: that equals nothing."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case float():
            return str(value) if math.isnan(value) else value + 0.0
    return value


_TYPES = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
