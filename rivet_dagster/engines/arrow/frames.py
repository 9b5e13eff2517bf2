"""Frames of Arrow rows, with exactly the Arrow types that Spark gives columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rivet_dagster.engines.arrow_types import arrow_schema, arrow_type
from rivet_dagster.engines.duckdb.relations.parquet import type_of_arrow
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType

Names = frozenset[str] | None
"""Names of columns in lower case, None for all."""

Columns = tuple[tuple[str, SparkType], ...]

_REMEDY = "Cast it to a type that Spark has, such as a string, or leave it out."


@dataclass(frozen=True, eq=False)
class ArrowFrame:
    """Rows that are read when ``batches`` is called, with at least the columns that its argument names."""

    columns: Columns
    batches: Callable[[Names], Iterator[pa.RecordBatch]]

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of all columns."""
        return arrow_schema(self.columns)


def columns_of(schema: pa.Schema) -> Columns:
    """Return the columns of Arrow rows. Raises RVT-503 for a type that Spark does not have.

    >>> columns_of(pa.schema([("at", pa.timestamp("ms", "Europe/Berlin"))]))
    (('at', SparkType(kind='timestamp', ...)),)
    >>> columns_of(pa.schema([("at", pa.time64("us"))]))
    Traceback (most recent call last):
    rivet_dagster.errors.QueryRefused: RVT-503 the column at is of the type time64[us], which no table can store...
    """
    kinds = []
    for field in schema:
        try:
            kinds.append((field.name, SparkType("void") if pa.types.is_null(field.type) else type_of_arrow(field.type)))
        except (TypeError, ValueError) as error:
            message = f"the column {field.name} is of the type {field.type}, which no table can store"
            raise RivetError("RVT-503", message, remediation=_REMEDY) from error
    return tuple(kinds)


def readable_columns(columns: Sequence[tuple[str, SparkType]], engine: str) -> Columns:
    """Return columns of files. Raises RVT-519 for a type that Arrow does not have."""
    for name, kind in columns:
        try:
            arrow_type(kind)
        except KeyError:
            message = f"the engine {engine} does not read the column {name}, which is {kind}"
            raise RivetError("RVT-519", message, remediation="Run the joint on Spark, or leave it out.") from None
    return tuple(columns)


def frame_of_reader(reader: pa.RecordBatchReader) -> ArrowFrame:
    """Return a frame of a reader, whose rows can be read once. Raises RVT-503 when they are read again."""
    columns = columns_of(reader.schema)
    schema, left = arrow_schema(columns), [reader]

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        if not left:
            message = "the rows of a reader have been read, and are wanted again"
            raise RivetError("RVT-503", message, remediation="Return a pyarrow Table instead of a reader.")
        for batch in left.pop():
            yield cast(batch, schema)

    return ArrowFrame(columns, batches)


def with_columns(frame: ArrowFrame, columns: Columns) -> ArrowFrame:
    """Return the rows of a frame with ``columns``: the same names, in another order or with wider types."""
    schema = arrow_schema(columns)

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        for batch in frame.batches(None):
            index = {name.lower(): position for position, name in enumerate(batch.schema.names)}
            arrays = [batch.column(index[field.name.lower()]) for field in schema]
            yield cast(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)

    return ArrowFrame(columns, batches)


def cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of ``schema``, whose names may be other ones."""
    if batch.schema.equals(schema):
        return batch
    arrays: list[Any] = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch
