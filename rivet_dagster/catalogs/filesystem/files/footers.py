"""The footers of a version's Parquet files: statistics, and columns with Spark's types, without reading rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import names_in
from rivet_dagster.catalogs.parquet_rows import SPARK_SCHEMA
from rivet_dagster.catalogs.totals import Totals
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import field_name
from rivet_dagster.model.storage import ColumnStatistics, Statistics

_EXACT = ("INT32", "INT64", "BOOLEAN")
_SHORT = 32
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def parquet_files(folder: Path) -> list[Path]:
    """Return the data files of a version, in order; none if its folder does not exist. Raises OSError."""
    return [folder / name for name in data_names(folder)]


def data_names(folder: Path) -> list[str]:
    """Return the names of the data files of a version, in order; none if its folder does not exist. Raises OSError.

    Where the paths are not needed, this is quicker than ``parquet_files``.
    """
    return list(filter(is_data, names_in(folder)))


def is_data(name: str) -> bool:
    """Return whether a name is that of a data file; Spark also writes checksums and ``_SUCCESS`` files.

    >>> is_data("part-00000-5be2f7c3.snappy.parquet"), is_data("_SUCCESS"), is_data(".part-00000.crc")
    (True, False, False)
    """
    return not name.startswith(("_", "."))


@dataclass(frozen=True)
class Footer:
    """The footer of one file: its statistics, and the schema that Spark stored in it, as JSON."""

    statistics: Statistics
    schema: str | None = None


def footer_of(path: Path) -> Footer:
    """Return the footer of a file. Raises RVT-407."""
    footer = read_footer(path)
    columns = _columns(footer)
    statistics = Statistics(footer.num_rows, path.stat().st_size, columns, _values(footer, columns))
    return Footer(statistics, spark_schema(footer))


def read_statistics(files: list[Path]) -> Statistics:
    """Return the statistics of the table that ``files``, at least one, make up. Raises RVT-407."""
    parts = [footer_of(path).statistics for path in files]
    return Totals.of(parts).statistics(parts[0])


def read_footer(path: Path) -> Any:
    """Return the footer of a file, as pyarrow reads it. Raises RVT-407."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        why = str(error).strip()
        raise RivetError("RVT-407", f"the file {path}, as the engine wrote it, cannot be read: {why}") from error


def spark_schema(footer: Any) -> str | None:
    """Return the schema, as JSON, that Spark stored when it wrote the file; None for a file of another writer."""
    schema = (footer.metadata or {}).get(SPARK_SCHEMA)
    return schema.decode() if schema else None


def spark_columns(footer: Any) -> tuple[tuple[str, str], ...] | None:
    """Return the columns of that schema."""
    schema = spark_schema(footer)
    if schema is None:
        return None
    return tuple((field["name"], spark_type(field["type"])) for field in json.loads(schema)["fields"])


def _values(footer: Any, columns: tuple[tuple[str, str], ...]) -> dict[str, ColumnStatistics]:
    """Return the statistics over all row groups of each column, and of each field of a struct, by path: ``place.city``.

    Columns with dots in their names, and the elements of lists and maps, are left out.
    """
    schema = footer.schema
    types = {name.lower(): type_ for name, type_ in columns}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    groups = [group for group in groups if group.num_rows]
    values = {}
    for position in range(len(schema)):
        leaf = schema.column(position)
        path = leaf.path.lower()
        column, _, field = path.partition(".")
        is_field = bool(field) and path not in types and types.get(column, "").startswith("struct<")
        if leaf.max_repetition_level == 0 and (is_field or not field):
            values[path] = _value([group.column(position).statistics for group in groups])
    return values


def _value(groups: list[Any]) -> ColumnStatistics:
    import pyarrow as pa

    if not all(group is not None and group.has_null_count for group in groups):
        return ColumnStatistics()
    nulls = sum(group.null_count for group in groups)
    bounded = [group for group in groups if group.num_values]
    if not bounded or not all(group.has_min_max and _is_exact(group) for group in bounded):
        return ColumnStatistics(nulls)
    try:
        return ColumnStatistics(nulls, min(group.min for group in bounded), max(group.max for group in bounded))
    except pa.ArrowNotImplementedError:  # of short decimals as Spark stores them, before pyarrow 23
        return ColumnStatistics(nulls)


def _is_exact(statistics: Any) -> bool:
    """Return whether min and max are exact: those of floats leave out NaN, and those of long texts may be truncated."""
    if statistics.logical_type is not None and statistics.logical_type.type == "STRING":
        try:
            return max(len(statistics.min), len(statistics.max)) < _SHORT
        except UnicodeDecodeError:  # Spark allows any bytes in strings
            return False
    return statistics.physical_type in _EXACT


def _columns(footer: Any) -> tuple[tuple[str, str], ...]:
    schema = footer.schema.to_arrow_schema
    return spark_columns(footer) or tuple((f.name, sql_type(f.type) or str(f.type)) for f in schema())


def spark_type(type_: Any) -> str:
    """Return a type of Spark's JSON schema as Spark's SQL writes it.

    >>> spark_type("long")
    'bigint'
    >>> spark_type({"type": "array", "elementType": {"type": "struct", "fields": [{"name": "a", "type": "integer"}]}})
    'array<struct<a:int>>'
    """
    if isinstance(type_, str):
        return _SQL_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{spark_type(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{spark_type(type_['keyType'])},{spark_type(type_['valueType'])}>"
    if type_["type"] == "struct":
        fields = ",".join(f"{field_name(field['name'])}:{spark_type(field['type'])}" for field in type_["fields"])
        return f"struct<{fields}>"
    return spark_type(type_["sqlType"])  # a user-defined type is stored as this one


_PLAIN = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}


def sql_type(type_: Any) -> str | None:
    """Return the name of the type that Spark gives such a column; None if it has none, or if it is not certain.

    >>> import pyarrow as pa
    >>> sql_type(pa.map_(pa.string(), pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.uint8())]))))
    'map<string,array<struct<at:timestamp,n:smallint>>>'
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(type_):
        return sql_type(type_.value_type)
    if types.is_timestamp(type_):
        # Spark refuses nanoseconds.
        return None if type_.unit == "ns" else "timestamp" if type_.tz else "timestamp_ntz"
    if isinstance(type_, pa.Decimal128Type):
        return f"decimal({type_.precision},{type_.scale})"
    if types.is_fixed_size_binary(type_):
        return "binary"
    if types.is_map(type_):
        return _nested("map<{},{}>", type_.key_type, type_.item_type)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return _nested("array<{}>", type_.value_type)
    if types.is_struct(type_):
        kinds = [(field_name(field.name), sql_type(field.type)) for field in type_]
        known = [f"{name}:{kind}" for name, kind in kinds if kind is not None]
        return f"struct<{','.join(known)}>" if len(known) == len(kinds) else None
    return _PLAIN.get(str(type_))


def _nested(template: str, *types: Any) -> str | None:
    names = [sql_type(type_) for type_ in types]
    return None if None in names else template.format(*names)
