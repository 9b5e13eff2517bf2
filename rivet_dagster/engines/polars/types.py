"""The types of Polars and those of Spark: which is which, and lazy frames with exactly these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from rivet_dagster.engines.arrow.frames import Columns
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType, parse_type

_SPARK: dict[type[pl.DataType], str] = {
    pl.Boolean: "boolean",
    pl.Int8: "tinyint",
    pl.Int16: "smallint",
    pl.Int32: "int",
    pl.Int64: "bigint",
    pl.Float32: "float",
    pl.Float64: "double",
    pl.String: "string",
    pl.Binary: "binary",
    pl.Date: "date",
    pl.Null: "void",
    # Polars has these, and Spark has a type that holds each of their values.
    pl.UInt8: "smallint",
    pl.UInt16: "int",
    pl.UInt32: "bigint",
    pl.UInt64: "decimal(20,0)",
    pl.Categorical: "string",
    pl.Enum: "string",
}

_POLARS: dict[str, pl.DataType] = {
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
    "void": pl.Null(),
}

_NANOSECONDS = "Make it microseconds, as by dt.cast_time_unit('us'): what is below them is lost."
_OTHER = "Cast it to a type that Spark has, such as a string, or leave it out."


def spark_columns(lazy: pl.LazyFrame) -> Columns:
    """Return the columns of a lazy frame. Raises RVT-503 for a type whose values Spark has no type for.

    >>> spark_columns(pl.LazyFrame({"n": [1]}, schema={"n": pl.UInt32}))
    (('n', SparkType(kind='bigint', ...)),)
    >>> spark_columns(pl.LazyFrame({"at": []}, schema={"at": pl.List(pl.Time)}))
    Traceback (most recent call last):
    rivet_dagster.errors.QueryRefused: RVT-503 the column at is of Polars' type List(Time), which no table can store...
    """
    columns = []
    for name, type_ in lazy.collect_schema().items():
        kind = _spark_type(type_)
        if kind is None:
            message = f"the column {name} is of Polars' type {type_}, which no table can store"
            raise RivetError("RVT-503", message, remediation=_NANOSECONDS if _has_nanoseconds(type_) else _OTHER)
        columns.append((name, kind))
    return tuple(columns)


def with_types(lazy: pl.LazyFrame, columns: Sequence[tuple[str, SparkType]]) -> pl.LazyFrame:
    """Return a lazy frame with ``columns``, which it has by other types that hold the same values."""
    given = lazy.collect_schema()
    wanted = {name: polars_type(kind) for name, kind in columns}
    if list(wanted.items()) == list(given.items()):
        return lazy
    return lazy.select([pl.col(name) if given[name] == to else pl.col(name).cast(to) for name, to in wanted.items()])


def polars_type(kind: SparkType) -> pl.DataType:
    """Return the type of Polars for the values of one of Spark's.

    >>> polars_type(parse_type("map<string,array<struct<a:decimal(6,2)>>>"))
    Map(String, List(Struct({'a': Decimal(precision=6, scale=2)})))
    """
    parts = [polars_type(part) for part in kind.parts]
    match kind.kind:
        case "decimal":
            return pl.Decimal(kind.precision, kind.scale)
        case "array":
            return pl.List(parts[0])
        case "map":
            return pl.Map(*parts)
        case "struct":
            return pl.Struct(dict(zip(kind.names, parts, strict=True)))
    return _POLARS[kind.kind]


def _spark_type(type_: Any) -> SparkType | None:
    match type_:
        case pl.Datetime():
            return None if type_.time_unit == "ns" else SparkType("timestamp" if type_.time_zone else "timestamp_ntz")
        case pl.Decimal():
            return SparkType("decimal", precision=type_.precision or 38, scale=type_.scale)
        case pl.List() | pl.Array():
            return _nested("array", [type_.inner])
        case pl.Map():
            return _nested("map", [type_.key, type_.value])
        case pl.Struct():
            return _nested("struct", [field.dtype for field in type_.fields], [field.name for field in type_.fields])
    name = _SPARK.get(type(type_))
    return None if name is None else parse_type(name)


def _nested(kind: str, inner: Sequence[Any], names: Sequence[str] = ()) -> SparkType | None:
    parts = [kind_ for part in inner if (kind_ := _spark_type(part)) is not None]
    return SparkType(kind, tuple(parts), tuple(names)) if len(parts) == len(inner) else None


def _has_nanoseconds(type_: Any) -> bool:
    return "ns" in str(type_) and "Datetime" in str(type_)
