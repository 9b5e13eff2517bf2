"""Values that a user's function returned, as Arrow rows of types that engines support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 38


def arrow_rows(value: Any) -> pa.RecordBatchReader | None:
    """Return the rows of a pyarrow Table, RecordBatch or RecordBatchReader, or of a pandas or polars frame, else None.

    A reader is read lazily. Nanoseconds are cut to microseconds; a timestamp without a time zone stays one. Raises
    RVT-316, and RVT-505 for values that do not fit into columns; for a reader, that may be raised while it is read.
    """
    import pyarrow as pa

    with convertible(value):
        reader = _reader(value)
        if reader is None:
            return None
        refuse_repeated(reader.schema.names)
        fields = [field.with_type(storable(field.type)) for field in reader.schema]
        schema = pa.schema(fields, metadata=reader.schema.metadata)

    def cast() -> Iterator[pa.RecordBatch]:
        with convertible(value):
            for batch in reader:
                yield batch.cast(schema, safe=False)

    return pa.RecordBatchReader.from_batches(schema, cast())


@contextmanager
def convertible(value: Any) -> Iterator[None]:
    """Turn errors of pyarrow in the block, which converts ``value``, into RVT-505."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise RivetError("RVT-505", f"a {kind} could not be converted: {error}") from error


def refuse_repeated(columns: Iterable[str]) -> None:
    """Raise RVT-316 if several columns have the same name; letter case makes no difference.

    >>> refuse_repeated(["id", "name", "ID"])
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-316 several columns are called id...
    """
    counts = Counter(name.lower() for name in columns)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise RivetError("RVT-316", f"several columns are called {', '.join(repeated)}")


def untyped_columns(columns: Iterable[str]) -> RivetError:
    """Return the error for columns that have no type, since they hold nothing but NULL."""
    return RivetError(
        "RVT-503",
        f"{', '.join(columns)}: a column that is nothing but NULL has no type, so it cannot be stored",
        remediation="Give it a type: CAST(NULL AS STRING), or a typed column in Python.",
    )


def is_a(value: Any, package: str, name: str) -> bool:
    """Return whether ``value`` is an instance of that class, without importing its package as isinstance would."""
    return any(f"{cls.__module__}.".startswith(f"{package}.") and cls.__name__ == name for cls in type(value).__mro__)


def storable(type_: Any) -> Any:
    """Return the nearest Arrow type that Spark has an equivalent of. Raises TypeError for a decimal that is too long.

    >>> import pyarrow as pa
    >>> storable(pa.list_(pa.dictionary(pa.int8(), pa.string())))
    ListType(list<element: string>)
    """
    import pyarrow as pa

    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return storable(type_.storage_type)
    if types.is_dictionary(type_):
        return storable(type_.value_type)
    if types.is_struct(type_):
        return pa.struct([field.with_type(storable(field.type)) for field in type_.fields])
    if types.is_map(type_):
        return pa.map_(storable(type_.key_type), storable(type_.item_type))
    if hasattr(type_, "value_field"):  # every kind of list
        return pa.list_(type_.value_field.with_name("element").with_type(storable(type_.value_type)))
    if types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if types.is_duration(type_):
        return pa.duration("us")
    if types.is_time(type_):
        return pa.time64("us")
    if isinstance(type_, pa.Decimal256Type):
        if type_.precision > _DIGITS:
            raise TypeError(f"{type_} has more than the {_DIGITS} digits of Spark's decimals")
        return pa.decimal128(type_.precision, type_.scale)
    return _widened().get(type_, type_)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with NULL allowed everywhere, as in stored tables: any later row may hold one.

    >>> import pyarrow as pa
    >>> nullable(pa.schema([pa.field("point", pa.struct([pa.field("x", pa.int32(), False)]), False)])).field("point")
    pyarrow.Field<point: struct<x: int32>>
    """
    import pyarrow as pa

    return pa.schema([_nullable(field) for field in schema], metadata=schema.metadata)


def _nullable(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_nullable(inner) for inner in type_.fields])
    elif pa.types.is_map(type_):
        type_ = pa.map_(type_.key_field, _nullable(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_nullable(type_.value_field))
    return field.with_type(type_).with_nullable(True)


def _widened() -> dict[Any, Any]:
    import pyarrow as pa

    return {
        pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(),
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
    }


def _reader(value: Any) -> pa.RecordBatchReader | None:
    import pyarrow as pa

    if isinstance(value, pa.RecordBatchReader):
        return value
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    elif is_a(value, "pandas", "DataFrame"):
        value = pa.Table.from_pandas(value, preserve_index=False)
    elif is_a(value, "polars", "LazyFrame"):
        value = value.collect().to_arrow()
    elif is_a(value, "polars", "DataFrame"):
        value = value.to_arrow()
    return value.to_reader() if isinstance(value, pa.Table) else None
