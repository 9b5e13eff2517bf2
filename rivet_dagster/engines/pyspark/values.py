"""Frames over what a Python joint returned, whichever library made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.pyspark.files import refuse_repeated
from rivet_dagster.engines.pyspark.jobs import is_connect
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, value: Any) -> DataFrame | None:
    """A frame of ``spark`` with the rows of ``value``; None for a kind of value that is not known.

    Naive timestamps mean the session's time zone, as everywhere in Spark, and nanoseconds are cut to microseconds.
    Raises RVT-316 and, for a value that does not fit into columns, RVT-505.
    """
    if _is_a(value, "pyspark.sql", "DataFrame"):
        return adopted(spark, value)
    import pyarrow as pa

    try:
        table = _arrow_table(value)
        if table is None:
            return None
        refuse_repeated(table.column_names)
        table = table.cast(pa.schema([field.with_type(storable(field.type)) for field in table.schema]), safe=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise RivetError("RVT-505", f"a {kind} could not be converted: {error}") from error
    return spark.createDataFrame(table)


def adopted(spark: SparkSession, frame: Any) -> DataFrame:
    """``frame`` as one of ``spark``'s own, so that its queries can use it; user code may have made it elsewhere."""
    if frame.sparkSession is spark:
        return frame  # type: ignore[no-any-return]
    if is_connect(spark):
        # A Connect server keeps sessions apart: only the rows themselves can cross.
        if frame.sparkSession.session_id == spark.session_id:  # type: ignore[attr-defined]
            return frame  # type: ignore[no-any-return]
        return spark.createDataFrame(frame.toArrow())
    from pyspark.sql.classic.dataframe import DataFrame

    # The analyzed plan holds what the other session's views stood for.
    dataset = getattr(getattr(spark._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
    return DataFrame(dataset.ofRows(spark._jsparkSession, frame._jdf.queryExecution().analyzed()), spark)


def storable(type_: Any) -> Any:
    """The Arrow type nearest to ``type_`` that Spark has a type for.

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
    return _widened().get(type_, type_)


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


def _arrow_table(value: Any) -> pa.Table | None:
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    if _is_a(value, "pandas", "DataFrame"):
        return pa.Table.from_pandas(value, preserve_index=False)
    if _is_a(value, "polars", "LazyFrame"):
        return value.collect().to_arrow()
    return value.to_arrow() if _is_a(value, "polars", "DataFrame") else None


def _is_a(value: Any, package: str, name: str) -> bool:
    """Whether ``value`` is of that class or a subclass, without importing what it would take to ask isinstance."""
    return any(f"{cls.__module__}.".startswith(f"{package}.") and cls.__name__ == name for cls in type(value).__mro__)
