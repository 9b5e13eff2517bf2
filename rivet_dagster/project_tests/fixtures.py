"""The rows of a test, or of a file, with their types: of its own ``schema``, else of the plan, else of the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.schema import Schema, SparkType, parse_type
from rivet_dagster.project_tests.declared import GivenRows, LineOfFile
from rivet_dagster.project_tests.values import Table, infer_type, read_value, table_of


def fixture(given: GivenRows, what: str, plan: Schema | None, root: Path) -> Table:
    """Return the rows of an input; ``plan`` are the columns that the plan knows, ``what`` names the input in messages.

    Columns that the rows leave out are NULL. Raises RVT-204, RVT-108.
    """
    given, declared = _with_file(given, what, root)
    types = _types(given, what, plan, declared)
    if not types:
        raise _error(given.location, f"`{what}` has no rows and no columns: give `schema`, or `columns`")
    return read_rows(given, what, types)


def read_rows(given: GivenRows, what: str, types: Sequence[tuple[str, SparkType]]) -> Table:
    """Return the rows read as columns of these types; those that the rows leave out are NULL. Raises RVT-204."""
    columns = {name.lower(): number for number, name in enumerate(given.columns or ())}
    known = {name.lower() for name, _ in types}
    for name in given.columns or ():
        if name.lower() not in known:
            raise _error(given.location, f"`{what}` has no column '{name}'{nearest(name, [n for n, _ in types])}")
    columns_of_types = [(columns.get(name.lower()), name, type_) for name, type_ in types]
    rows = tuple(
        tuple(
            None if number is None else _read(row[number], type_, given, what, name, line)
            for number, name, type_ in columns_of_types
        )
        for row, line in zip(given.rows, given.lines, strict=True)
    )
    return Table(tuple(types), rows)


def with_file_rows(given: GivenRows, what: str, root: Path) -> GivenRows:
    """Return the rows with those of their file, if they have one. Raises RVT-108, RVT-204."""
    return _with_file(given, what, root)[0]


def _with_file(given: GivenRows, what: str, root: Path) -> tuple[GivenRows, Mapping[str, SparkType]]:
    if given.file is None:
        return given, {}
    read = read_file(root, given.file, given.location, what)
    lines = (given.location.line,) * len(read.rows)
    return replace(given, columns=read.columns, rows=read.rows, lines=lines), read.types


def _types(
    given: GivenRows, what: str, plan: Schema | None, declared: Mapping[str, SparkType]
) -> tuple[tuple[str, SparkType], ...]:
    if given.types is not None:
        return given.types
    columns = given.columns or ()
    planned = {field.name.lower(): field.type for field in plan or ()}
    names = tuple(field.name for field in plan) if plan else columns

    def type_of(name: str) -> SparkType:
        written = planned.get(name.lower())
        if written is not None:
            return parse_type(written)
        if name in declared:
            return declared[name]
        numbers = [number for number, column in enumerate(columns) if column.lower() == name.lower()]
        return infer_type(row[numbers[0]] for row in given.rows) if numbers else infer_type(())

    types = []
    for name in names:
        try:
            types.append((name, type_of(name)))
        except ValueError as error:
            raise _error(given.location, f"`{what}`, column {name}: {error}") from None
    return tuple(types)


def _read(value: Any, type_: SparkType, given: GivenRows, what: str, column: str, line: int | None) -> Any:
    try:
        return read_value(value, type_)
    except ValueError as error:
        location = LineOfFile(
            given.location.file if given.file is None else given.file, line if given.file is None else None
        )
        raise _error(location, f"`{what}`, column {column}: {error}") from None


def _error(location: LineOfFile, message: str) -> RivetError:
    return RivetError.of([location.diagnostic("RVT-204", message)])


@dataclass(frozen=True)
class FileRows:
    """The rows of a file; ``types`` are those of its columns that the file itself has."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: Mapping[str, SparkType] = field(default_factory=dict)


def read_file(root: Path, file: str, location: LineOfFile, what: str) -> FileRows:
    """Return the rows of a file of the project, which ``location`` names. Raises RVT-108, RVT-204."""
    path = root / file
    if not path.is_file():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        message = f"`{what}`: the file {file} does not exist{nearest(path.name, beside, listed=False)}"
        remedy = "Create it, or correct the path, which is relative to the test's file."
        raise RivetError.of([location.diagnostic("RVT-108", message, remedy)])
    readers = {".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise _wrong(location, f"`{what}`: {file} is neither a CSV nor a Parquet file, by its name")
    import pyarrow as pa

    try:
        return reader(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, StopIteration) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is empty"
        raise _wrong(location, f"`{what}`: {file} cannot be read: {reason}") from None


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
    table = table_of(read.schema, read.columns, read.num_rows)
    return FileRows(table.names, table.rows)


def _parquet(path: Path) -> FileRows:
    import pyarrow.parquet as pq

    read = pq.read_table(path)
    table = table_of(read.schema, read.columns, read.num_rows)
    return FileRows(table.names, table.rows, dict(table.columns))


def _wrong(location: LineOfFile, message: str) -> RivetError:
    return RivetError.of([location.diagnostic("RVT-204", message)])
