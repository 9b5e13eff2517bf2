"""Files of rows: CSV, whose columns are texts, and Parquet, whose columns have types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.spark_type import SparkType
from rivet_dagster.project_tests.arrow_rows import table_of
from rivet_dagster.project_tests.placed import Place


@dataclass(frozen=True)
class FileRows:
    """The rows of a file; ``types`` are those of its columns that the file itself has."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: Mapping[str, SparkType] = field(default_factory=dict)


def read_file(root: Path, file: str, place: Place, what: str) -> FileRows:
    """Return the rows of a file of the project, which ``place`` names. Raises RVT-108, RVT-204."""
    path = root / file
    if not path.is_file():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        message = f"`{what}`: the file {file} does not exist{nearest(path.name, beside, listed=False)}"
        remedy = "Create it, or correct the path, which is relative to the test's file."
        raise RivetError.of([place.diagnostic("RVT-108", message, remedy)])
    readers = {".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise _wrong(place, f"`{what}`: {file} is neither a CSV nor a Parquet file, by its name")
    import pyarrow as pa

    try:
        return reader(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, StopIteration) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is empty"
        raise _wrong(place, f"`{what}`: {file} cannot be read: {reason}") from None


def _csv(path: Path) -> FileRows:
    """Read a file with a header; an empty field is NULL, and one in quotes an empty text."""
    import csv

    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file))
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in header},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    read = arrow_csv.read_csv(path, parse_options=parse, convert_options=convert)
    found = table_of(read.schema, read.columns, read.num_rows)
    return FileRows(found.names, found.rows)


def _parquet(path: Path) -> FileRows:
    import pyarrow.parquet as pq

    read = pq.read_table(path)
    found = table_of(read.schema, read.columns, read.num_rows)
    return FileRows(found.names, found.rows, dict(found.columns))


def _wrong(place: Place, message: str) -> RivetError:
    return RivetError.of([place.diagnostic("RVT-204", message)])
