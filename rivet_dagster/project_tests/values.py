"""Values of a test as they are written, read as the type of their column, and those of Arrow with Spark's types."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rivet_dagster.model.convert import show
from rivet_dagster.model.schema import INTEGERS, VOID, SparkType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Table:
    """Rows in memory: structs are dicts and maps lists of pairs."""

    columns: tuple[tuple[str, SparkType], ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)


def table_of(fields: Iterable[pa.Field], columns: Iterable[pa.Array | pa.ChunkedArray], rows: int) -> Table:
    """Return the rows of columns of Arrow."""
    described = tuple((field.name, spark_type(field.type)) for field in fields)
    values = [column.to_pylist() for column in columns]
    return Table(described, tuple(zip(*values, strict=True)) if values else ((),) * rows)


def spark_type(type_: pa.DataType) -> SparkType:
    """Return the type of Spark; one of which nothing but its name is known where a test cannot hold its values.

    >>> import pyarrow as pa
    >>> str(spark_type(pa.map_(pa.string(), pa.list_(pa.struct([("at", pa.timestamp("us", "UTC"))])))))
    'map<string,array<struct<at:timestamp>>>'
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(type_):
        return spark_type(type_.value_type)
    if types.is_timestamp(type_):
        return SparkType("timestamp" if type_.tz else "timestamp_ntz")
    if types.is_decimal(type_):
        return SparkType("decimal", precision=type_.precision, scale=type_.scale)
    if types.is_map(type_):
        return SparkType("map", (spark_type(type_.key_type), spark_type(type_.item_type)))
    if types.is_list(type_) or types.is_large_list(type_):
        return SparkType("array", (spark_type(type_.value_type),))
    if types.is_struct(type_):
        fields = [pa.field(field.name, field.type) for field in type_]
        return SparkType("struct", tuple(spark_type(f.type) for f in fields), tuple(f.name for f in fields))
    return SparkType(_PLAIN.get(str(type_), str(type_)))


_PLAIN = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
    "null": "void",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
}


_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_OFFSET = re.compile(r"[A-Za-z]*([+-])(\d{1,2}):?(\d{2})?")
_LARGEST = 2**63
_MANY_DIGITS = Context(prec=1000)


def read_value(value: Any, type_: SparkType) -> Any:
    """Return a value as the one that a column of that type holds. Raise ValueError with a sentence.

    Structs are dicts and maps lists of pairs, as in rows of Arrow. A TIMESTAMP without an offset stays one.

    >>> read_value("1.50", SparkType("decimal", precision=4, scale=2)), read_value(1, SparkType("double"))
    (Decimal('1.50'), 1.0)
    >>> read_value("2026-01-31", SparkType("date"))
    datetime.date(2026, 1, 31)
    """
    if value is None:
        return None
    reader = _whole if type_.kind in INTEGERS else _READERS.get(type_.kind)
    if reader is None:
        raise ValueError(f"values of the type {type_} cannot be written in a test")
    return reader(value, type_)


def infer_type(values: Iterable[Any]) -> SparkType:
    """Return the type of a column of which nothing but its values is known. Raise ValueError.

    >>> str(infer_type([1, None, 2.5])), str(infer_type([{"a": [1]}, {"a": []}])), str(infer_type([None]))
    ('double', 'struct<a:array<bigint>>', 'void')
    """
    common = VOID
    for value in values:
        common = _common(common, _type_of(value))
    return common


def zone_named(name: str) -> tzinfo:
    """Return Spark's time zone of that name: a region, or an offset such as ``+02:00`` and ``GMT-3``."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        match = _OFFSET.fullmatch(name)
        if match is None:
            raise ValueError(f"the session's time zone {name} is not known here") from None
        span = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(span if match[1] == "+" else -span)


def in_zone(value: Any, type_: SparkType, zone: tzinfo) -> Any:
    """Return the value with the time zone ``zone`` where a TIMESTAMP in it has none.

    >>> in_zone([datetime(2026, 1, 2)], SparkType("array", (SparkType("timestamp"),)), timezone.utc)
    [datetime.datetime(2026, 1, 2, 0, 0, tzinfo=datetime.timezone.utc)]
    """
    match type_.kind:
        case _ if value is None:
            return None
        case "timestamp":
            return value.replace(tzinfo=zone) if value.tzinfo is None else value
        case "array":
            return [in_zone(item, type_.parts[0], zone) for item in value]
        case "map":
            return [(in_zone(k, type_.parts[0], zone), in_zone(v, type_.parts[1], zone)) for k, v in value]
        case "struct":
            return {n: in_zone(value[n], part, zone) for n, part in zip(type_.names, type_.parts, strict=True)}
    return value


def _wrong(value: Any, kind: str) -> ValueError:
    return ValueError(f"{show(value)} is no {kind}")


def _whole(value: Any, type_: SparkType) -> int:
    is_text = isinstance(value, str) and _WHOLE.fullmatch(value) is not None
    is_fraction = isinstance(value, float | Decimal) and (not math.isfinite(value) or value != int(value))
    number = int(value) if is_text or (isinstance(value, float | Decimal) and not is_fraction) else value
    limit = 2 ** (INTEGERS[type_.kind] - 1)
    if not isinstance(number, int) or isinstance(value, bool) or not -limit <= number < limit:
        raise _wrong(value, type_.kind)
    return number


def _floating(value: Any, type_: SparkType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _wrong(value, type_.kind)
    try:
        number = float(value)
        return struct.unpack("f", struct.pack("f", number))[0] if type_.kind == "float" else number
    except (ValueError, OverflowError):
        raise _wrong(value, type_.kind) from None


def _decimal(value: Any, type_: SparkType) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise InvalidOperation
        number = Decimal(str(value).strip())
    except InvalidOperation:
        raise _wrong(value, str(type_)) from None
    exponent = number.normalize(_MANY_DIGITS).as_tuple().exponent if number.is_finite() else None
    fits = isinstance(exponent, int) and (not number or -exponent <= type_.scale)
    if not fits or abs(number) >= Decimal(10) ** (type_.precision - type_.scale):
        raise _wrong(value, str(type_))
    return number


def _boolean(value: Any, type_: SparkType) -> bool:
    words = {"true": True, "false": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    if not isinstance(value, bool):
        raise _wrong(value, "boolean")
    return value


def _string(value: Any, type_: SparkType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict | bytes):
        raise _wrong(value, "text")
    return str(value)


def _binary(value: Any, type_: SparkType) -> bytes:
    if not isinstance(value, str | bytes):
        raise _wrong(value, "binary value: write the text whose UTF-8 it is")
    return value.encode() if isinstance(value, str) else value


def _date(value: Any, type_: SparkType) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value.strip())
    except (ValueError, AttributeError):
        raise _wrong(value, "date like 2026-01-31") from None


def _timestamp(value: Any, type_: SparkType) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    except (ValueError, AttributeError):
        raise _wrong(value, "time like 2026-01-31 12:30:00") from None
    if type_.kind == "timestamp_ntz" and moment.tzinfo is not None:
        raise ValueError(f"{show(value)} has an offset, and the column's times have none")
    return moment


def _array(value: Any, type_: SparkType) -> list[Any]:
    items = _from_json(value)
    if not isinstance(items, list):
        raise _wrong(value, "list")
    return [read_value(item, type_.parts[0]) for item in items]


def _map(value: Any, type_: SparkType) -> list[tuple[Any, Any]]:
    entries = _from_json(value)
    pairs = list(entries.items()) if isinstance(entries, dict) else entries
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise _wrong(value, "mapping")
    return [(read_value(key, type_.parts[0]), read_value(item, type_.parts[1])) for key, item in pairs]


def _struct(value: Any, type_: SparkType) -> dict[str, Any]:
    fields = _from_json(value)
    if not isinstance(fields, dict):
        raise _wrong(value, "mapping of the struct's fields")
    given = {name.lower(): item for name, item in fields.items()}
    unknown = [name for name in fields if name.lower() not in {field.lower() for field in type_.names}]
    if unknown:
        raise ValueError(f"the struct has no field {unknown[0]}; its fields: {', '.join(type_.names)}")
    return {n: read_value(given.get(n.lower()), part) for n, part in zip(type_.names, type_.parts, strict=True)}


def _void(value: Any, type_: SparkType) -> None:
    raise ValueError(f"{show(value)} stands in a column that holds nothing but NULL")


def _from_json(value: Any) -> Any:
    """Return a list or mapping from its JSON, as a CSV file has it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise _wrong(value, "list or mapping, nor JSON of one") from None


_READERS: dict[str, Callable[[Any, SparkType], Any]] = {
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "boolean": _boolean,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
    "array": _array,
    "map": _map,
    "struct": _struct,
    "void": _void,
}


def _type_of(value: Any) -> SparkType:
    match value:
        case None:
            return VOID
        case bool():
            return SparkType("boolean")
        case int():
            fits = -_LARGEST <= value < _LARGEST
            return SparkType("bigint") if fits else SparkType("decimal", precision=38)
        case float():
            return SparkType("double")
        case list():
            return SparkType("array", (infer_type(value),))
        case dict():
            return SparkType("struct", tuple(map(_type_of, value.values())), tuple(value))
    return SparkType("string")


def _common(one: SparkType, other: SparkType) -> SparkType:
    """Return the type of a column with values of both. Raise ValueError."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    kinds = {one.kind, other.kind}
    if kinds <= {"bigint", "double", "decimal"}:
        return SparkType("double") if "double" in kinds else SparkType("decimal", precision=38)
    if kinds == {"array"}:
        return SparkType("array", (_common(one.parts[0], other.parts[0]),))
    if kinds == {"struct"}:
        parts = dict(zip(one.names, one.parts, strict=True))
        for name, part in zip(other.names, other.parts, strict=True):
            parts[name] = _common(parts.get(name, VOID), part)
        return SparkType("struct", tuple(parts.values()), tuple(parts))
    raise ValueError(f"it has values of the types {one} and {other}: give a `schema`")
