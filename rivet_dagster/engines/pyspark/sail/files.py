"""Reading and writing files on Sail so that rows and columns are those of Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rivet_dagster.engines.arrow_values import nullable
from rivet_dagster.engines.pyspark.relations.files import (
    apply_projection,
    declared_schema,
    quote_identifier,
)
from rivet_dagster.engines.pyspark.results import arrow_schema, sql_type
from rivet_dagster.engines.pyspark.sail.csv_types import value_expression
from rivet_dagster.engines.pyspark.sail.file_options import text_option
from rivet_dagster.engines.pyspark.sail.tables import OTHER_ENGINE, is_remote, refused_files
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CHUNK = 2**24
_COMPRESSED = (".gz", ".bz2", ".zst", ".deflate", ".snappy", ".lz4")


def read_files(spark: SparkSession, files: Files, projection: Projection | None) -> DataFrame:
    """Return a frame over local Parquet or CSV files. Raises RVT-519 for what Spark would read otherwise."""
    base = text_option(files.options, "basepath", default="")
    options = {key: value for key, value in files.options.items() if key.lower() != "basepath"}
    for wrong in refused_files(files.format, options):
        raise RivetError("RVT-519", f"Sail {wrong.message}", remediation=wrong.remediation)
    paths = list(_data_files(files))
    for path in paths if base else ():
        if "=" in os.path.dirname(os.path.relpath(path, _local(base))):
            raise _refused(f"{path} lies in a folder that stands for a column, whose type Sail takes for another")
    frame = _read_csv(spark, files, paths) if files.format == "csv" else _read_parquet(spark, files, paths)
    return frame if projection is None else apply_projection(frame, projection)


def write(frame: DataFrame, target: Files, split_by: str | None) -> None:
    """Run the frame's query and append its rows to the folder of ``target``, which gets a file at least."""
    folder = Path(target.paths[0])
    before = _names(folder)
    options = target.options if text_option(target.options, "compression", default="") else {"compression": "snappy"}
    if split_by is not None:
        frame = frame.hint("rebalance", split_by)
    writer = frame.write.format(target.format).options(**options).mode("append")
    if split_by is not None:
        writer = writer.partitionBy(split_by)
    writer.save(folder.as_uri())
    written = [folder / name for name in sorted(_names(folder) - before)]
    if split_by is None and not written:  # Sail writes no file where there are no rows
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema: pa.Schema = nullable(arrow_schema(frame.schema))
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(schema.empty_table(), folder / f"empty-{os.urandom(8).hex()}.parquet")
    for path in written:
        for file in path.rglob("*.parquet") if path.is_dir() else [path]:
            _omit_wrong_bounds(file)


def _omit_wrong_bounds(path: Path) -> None:
    """Write a file anew, without the bounds of columns with NaN: by them readers would skip rows with NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    if not floats:
        return
    columns = pq.read_table(path, columns=floats)
    wrong = {name for name in floats if pc.any(pc.is_nan(columns[name])).as_py()}
    if wrong:
        compression = pq.read_metadata(path).row_group(0).column(0).compression
        others = [name for name in schema.names if name not in wrong]
        beside = path.with_name(f".{path.name}.new")
        pq.write_table(pq.read_table(path), beside, compression=compression, write_statistics=others)
        os.replace(beside, path)


def _local(path: str) -> str:
    """Return the path of a URI of this machine.

    >>> _local("file:///data/a%20b.csv"), _local("/data/a.csv")
    ('/data/a b.csv', '/data/a.csv')
    """
    return unquote(path.removeprefix("file:").removeprefix("//")) if path.startswith("file:") else path


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _data_files(files: Files) -> Iterator[str]:
    """Yield the paths of the files that Spark would read. Raises RVT-519 for folders that stand for columns."""
    for path in files.paths:
        local = _local(path)
        if is_remote(path):
            raise _refused(f"{path} is not a file of this machine")
        if not os.path.isdir(local):
            yield local
            continue
        with os.scandir(local) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith(("_", ".")):
                    continue
                if not entry.is_dir():
                    yield entry.path
                elif "=" in entry.name:
                    raise _refused(f"{entry.path} stands for a column, whose type Sail takes for another than Spark")


def _read_parquet(spark: SparkSession, files: Files, paths: list[str]) -> DataFrame:
    schema = None if files.schema is None else declared_schema(files.schema)
    if not paths:
        return _nothing(spark, schema)
    reader = spark.read.format("parquet")
    if schema is not None:
        reader = reader.schema(schema)
    return _named(reader.load([Path(path).as_uri() for path in paths]), schema)


def _nothing(spark: SparkSession, schema: StructType | None) -> DataFrame:
    assert schema is not None, "a relation without files has a schema"
    return spark.createDataFrame([], schema)


def _named(frame: DataFrame, schema: StructType | None) -> DataFrame:
    """Return the frame with the spelling of the schema: Sail takes that of the files."""
    return frame if schema is None or frame.columns == schema.names else frame.toDF(*schema.names)


def _read_csv(spark: SparkSession, files: Files, paths: list[str]) -> DataFrame:
    """Return the rows of CSV files: Sail reads texts, which are converted as Spark does it."""
    options = files.options
    has_header = text_option(options, "header", default="false") == "true"
    schema = None if files.schema is None else declared_schema(files.schema)
    null = text_option(options, "nullvalue", default="")
    quote = text_option(options, "quote", default='"')
    for path in paths:
        _refuse_other_records(path, quote, null)
        if has_header and schema is not None and text_option(options, "enforceschema", default="true") == "false":
            _refuse_other_header(path, schema.names, text_option(options, "sep", "delimiter", default=","), quote)
    if not paths:
        return _nothing(spark, schema)
    reader = spark.read.format("csv").options(**_passed(options, has_header))
    if schema is None:
        frame = reader.load([Path(path).as_uri() for path in paths])
        columns = [(name, "string") for name in frame.columns]
    else:
        texts = ", ".join(f"{quote_identifier(name)} STRING" for name in schema.names)
        frame = _named(reader.schema(texts).load([Path(path).as_uri() for path in paths]), schema)
        columns = [(field.name, sql_type(field.dataType)) for field in schema.fields]
    return frame.selectExpr(*(_value(name, type_, null) for name, type_ in columns))


def _value(name: str, type_: str, null: str) -> str:
    column = quote_identifier(name)
    return f"{value_expression(column, type_, null)} AS {column}"


def _passed(options: Mapping[str, str], has_header: bool) -> dict[str, str]:
    passed = {"header": str(has_header).lower(), "escape": "\\", "inferSchema": "false"}
    passed["sep"] = text_option(options, "sep", "delimiter", default=",")
    passed |= {name: text for name in ("quote", "comment") if (text := text_option(options, name, default=""))}
    return passed


def _refuse_other_records(path: str, quote: str, null: str) -> None:
    """Raise RVT-519 for a file with quoted values that Spark splits, or unescapes, otherwise than Sail.

    These are quotes written twice, escapes of other characters than quotes, and values of more than one line.
    """
    if path.lower().endswith(_COMPRESSED):
        raise _refused(f"{path} is compressed, and cannot be looked through before Sail reads it")
    q = re.escape(quote.encode())
    # A value in quotes, with what follows it; within it escapes of the quote and of the escape itself.
    value = re.compile(rb"%s(?:[^%s\\\r\n]|\\[%s\\])*%s(?=[^%s])" % (q, q, q, q, q))
    with open(path, "rb") as file:
        number = 0
        while lines := file.readlines(_CHUNK):
            block = b"".join(lines)
            if quote.encode() not in block:
                number += len(lines)
                continue
            for line in lines:
                number += 1
                if quote.encode() not in line:
                    continue
                rest = value.sub(b"", line if line.endswith(b"\n") else line + b"\n")
                empty = null != "" and quote.encode() * 2 in line
                if quote.encode() in rest or empty:
                    raise _refused(f"{path}, line {number}: a value in quotes that Spark reads otherwise than Sail")


def _refuse_other_header(path: str, names: list[str], sep: str, quote: str) -> None:
    """Raise RVT-503 for a file whose header has other names than the schema, as Spark does."""
    import csv

    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=sep, quotechar=quote), None)
    if header is not None and [name.lower() for name in header] != [name.lower() for name in names]:
        message = f"the header of {path} is {', '.join(header)}, and the columns of the source are {', '.join(names)}"
        raise RivetError("RVT-503", message, remediation="Correct the source's `options.schema`, or the file.")


def _refused(why: str) -> RivetError:
    return RivetError("RVT-519", why, remediation=OTHER_ENGINE)
