"""Parameters of queries on a SQL warehouse: each is sent as a text with the type to which the warehouse casts it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rivet_dagster.engines.contract import Typed
from rivet_dagster.engines.translated_queries import spark_type_of
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType, parse_type


def native_parameters(parameters: Mapping[str, Any]) -> list[Any]:
    """Return the connector's parameters for values by name. Raises RVT-503 for one of a type that it cannot send."""
    return [_native(name, value) for name, value in parameters.items()]


def _native(name: str, value: Any) -> Any:
    from databricks.sql.parameters import native

    plain = value.value if isinstance(value, Typed) else value
    type_ = spark_type_of(value)
    kind = parse_type(type_) if type_ is not None else None
    if plain is None:
        return native.VoidParameter(None, name)
    if kind is not None and kind.kind == "decimal":
        return native.DecimalParameter(Decimal(plain), name, kind.scale, kind.precision)
    known = {
        "boolean": native.BooleanParameter,
        "tinyint": native.TinyIntParameter,
        "smallint": native.SmallIntParameter,
        "int": native.IntegerParameter,
        "bigint": native.BigIntegerParameter,
        "float": native.FloatParameter,
        "double": native.DoubleParameter,
        "string": native.StringParameter,
        "date": native.DateParameter,
        "timestamp": native.TimestampParameter,
        "timestamp_ntz": native.TimestampNTZParameter,
    }
    if kind is None or kind.kind not in known:
        shown = kind or type(plain).__name__
        raise RivetError("RVT-503", f"a SQL warehouse takes no parameter of the type {shown}, as :{name} has")
    return known[kind.kind](_sent(plain, kind), name)


def _sent(value: Any, kind: SparkType) -> Any:
    if kind.kind == "timestamp" and isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)  # a naive one is of this process's zone
    return value
