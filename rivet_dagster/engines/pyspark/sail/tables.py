"""Tables that Sail does not read, or write, as Spark does: found by what a joint declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.engines.pyspark.sail.csv_types import unread_columns
from rivet_dagster.engines.pyspark.sail.file_options import refused_reader_option, refused_writer_option
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec

_CODE = "RVT-328"
OTHER_ENGINE = "Run the joint on an engine with Spark: `remote: local`, or `master`."
_SCHEMA = "Declare all columns in `options: {schema: ...}` of the source."


def refused_table(
    catalog: CatalogSpec, format: str | None, own: Mapping[str, Any], is_written: bool
) -> Iterator[Wrong]:
    """Yield why Sail cannot read a table of ``catalog`` with a source's ``own`` options, or write it with a sink's.

    >>> lake = CatalogSpec("lake", "filesystem", {"path": "lake"})
    >>> [wrong.message for wrong in refused_table(lake, "orc", {}, is_written=False)]
    ['reads no ORC files as Spark does']
    """
    if catalog.type != "filesystem":
        verb = "writes" if is_written else "reads"
        message = (
            f"{verb} no tables of the catalog '{catalog.name}' ({catalog.type}): it has only files of this machine"
        )
        yield Wrong(_CODE, "catalog", message, OTHER_ENGINE)
    elif is_remote(str(catalog.options.get("path", ""))):
        yield Wrong(_CODE, "catalog", "has only files of this machine, and none of a store", OTHER_ENGINE)
    elif is_written:
        for key, value in own.items():
            if (why := refused_writer_option(key, value)) is not None:
                message = f"does not take the option `{key}` of a sink: {why}"
                yield Wrong(_CODE, f"options.{key}", message, OTHER_ENGINE)
    else:
        yield from refused_files(format or "parquet", own)


def refused_files(format: str, options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield why Sail does not read files of a format with these ``options`` as Spark does.

    >>> [wrong.key for wrong in refused_files("csv", {"inferSchema": True, "nullValue": "NA"})]
    ['options.inferSchema']
    """
    if format not in ("parquet", "csv"):
        yield Wrong(_CODE, "options.format", f"reads no {format.upper()} files as Spark does", OTHER_ENGINE)
        return
    for key, value in options.items():
        if (why := refused_reader_option(format, key, value)) is not None:
            remedy = _SCHEMA if key.lower() == "inferschema" else OTHER_ENGINE
            yield Wrong(_CODE, f"options.{key}", f"does not take the option `{key}`: {why}", remedy)
    schema = next((value for key, value in options.items() if key.lower() == "schema"), None)
    if format == "csv" and isinstance(schema, str):
        for name, type_ in unread_columns(schema):
            message = f"reads no column of the type {type_} from CSV files as Spark does: {name}"
            yield Wrong(_CODE, "options.schema", message, "Declare it as STRING and cast it in a joint.")


def is_remote(path: str) -> bool:
    """Return whether a path is a URI of another file system than this machine's.

    >>> is_remote("s3a://lake/raw"), is_remote("file:///lake"), is_remote("lake")
    (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme != "file"
