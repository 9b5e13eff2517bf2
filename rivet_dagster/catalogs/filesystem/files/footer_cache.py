"""The file beside a version that holds the footers of its data files, so that each is read once.

``<version>.files.json`` has row count, NULLs, min and max of each file by name, with the size and modification time by
which the file is recognized in later versions that share it. It is JSON with a line for each file, which is copied from
version to version, and parsed where somebody asks for its columns. What all files have together comes before them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import damage
from rivet_dagster.catalogs.filesystem.files.footers import Footer
from rivet_dagster.catalogs.totals import TOTALS, ColumnTotals, Totals
from rivet_dagster.model.storage import ColumnStatistics, Statistics

FileStamp = tuple[str, int, int]
"""A file's name, size and modification time, which together identify its content."""

_REMEDY = "Remove it: the files themselves tell the same."
_LINE = re.compile(
    r'("(?:[^"\\]|\\.)*"):\{"size":(\d+),"mtime_ns":(\d+),"schema":(\d+),"rows":(\d+),"values":(.*)\},?\n'
)
_BEGINNING, _END = '"files":{\n', "}}\n"

Schema = tuple[tuple[tuple[str, str], ...], str | None]
"""Names and types of a file's columns, and the schema that Spark stored in it."""


@dataclass(frozen=True)
class CachedFooters:
    """The footers of some files, and the totals of all of them; None where a file of an earlier release has none."""

    footers: Mapping[FileStamp, Footer] = field(default_factory=dict)
    totals: Totals | None = None


class StoredValues(Mapping[str, ColumnStatistics]):
    """The statistics of the columns of one file: the ``text`` that the cache ``file`` has, parsed when it is asked."""

    def __init__(self, text: str, file: Path) -> None:
        self.text = text
        self._file = file

    def __getitem__(self, name: str) -> ColumnStatistics:
        stored = self._fields[name]
        with damage(self._file, _REMEDY):
            nulls, least, greatest = stored
            return ColumnStatistics(nulls, _value(least), _value(greatest))

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def _fields(self) -> dict[str, Any]:
        with damage(self._file, _REMEDY):
            return _parsed(self.text)


@lru_cache(1)  # several columns are asked for, one file after the other; all files would not fit into memory
def _parsed(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


def read_footers(path: Path) -> CachedFooters:
    """Return what a cache file holds, nothing if it does not exist. Raises RVT-407 if it is damaged."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file, damage(path, _REMEDY):
            beginning = file.readline()
            if not beginning.endswith(_BEGINNING):
                return _of_earlier_releases(json.loads(beginning + file.read()), path)
            head = json.loads(f"{beginning}}}}}")
            schemas = [_schema(schema) for schema in head["schemas"]]
            return CachedFooters(dict(_lines(file, schemas, path)), _totals(head["totals"]))
    except FileNotFoundError:
        return CachedFooters()


def _lines(lines: Iterable[str], schemas: Sequence[Schema], path: Path) -> Iterator[tuple[FileStamp, Footer]]:
    for line in lines:
        if line == _END:
            return
        match = _LINE.fullmatch(line)
        if match is None:
            break
        name, size, mtime_ns, schema, rows, values = match.groups()
        columns, spark = schemas[int(schema)]
        statistics = Statistics(int(rows), int(size), columns, StoredValues(values, path))
        yield (json.loads(name), int(size), int(mtime_ns)), Footer(statistics, spark)
    raise ValueError("it does not end as it was written")


def _of_earlier_releases(fields: Mapping[str, Any], path: Path) -> CachedFooters:
    footers = {}
    for name, file in fields["files"].items():
        columns, spark = _schema(fields["schemas"][file["schema"]])
        values = StoredValues(json.dumps(file["values"]), path)
        stamp = (name, file["size"], file["mtime_ns"])
        footers[stamp] = Footer(Statistics(int(file["rows"]), file["size"], columns, values), spark)
    return CachedFooters(footers)


def _schema(stored: Mapping[str, Any]) -> Schema:
    return tuple((name, type_) for name, type_ in stored["columns"]), stored["spark"]


def _totals(stored: Mapping[str, Any]) -> Totals:
    columns = {}
    for name, values in stored["columns"].items():
        known = dict(zip(TOTALS, values, strict=True))
        columns[name] = ColumnTotals(**{**known, "min": _value(known["min"]), "max": _value(known["max"])})
    return Totals(stored["rows"], stored["bytes"], stored["filled"], columns)


def write_footers(footers: Mapping[FileStamp, Footer], totals: Totals, to: Path) -> None:
    """Write the footers of a version's files, and their ``totals``, durably. Raises OSError."""
    numbers = {schema: number for number, schema in enumerate(dict.fromkeys(map(_schema_of, footers.values())))}
    schemas = [{"spark": spark, "columns": columns} for columns, spark in numbers]
    head = _compact({"schemas": schemas, "totals": _as_json(totals), "files": {}})
    with open(to, "w", encoding="utf-8") as file:
        file.write(head.removesuffix("}}") + "\n")
        for count, ((name, size, mtime_ns), footer) in enumerate(footers.items(), 1):
            file.write(
                f'{json.dumps(name)}:{{"size":{size},"mtime_ns":{mtime_ns},"schema":{numbers[_schema_of(footer)]},'
                f'"rows":{footer.statistics.rows},"values":{_text(footer.statistics.values)}}}'
            )
            file.write(",\n" if count < len(footers) else "\n")
        file.write(_END)
        file.flush()
        os.fsync(file.fileno())


def _schema_of(footer: Footer) -> Schema:
    return footer.statistics.columns, footer.schema


def _text(values: Mapping[str, ColumnStatistics]) -> str:
    if isinstance(values, StoredValues):
        return values.text
    return _compact({name: [known.nulls, _typed(known.min), _typed(known.max)] for name, known in values.items()})


def _as_json(totals: Totals) -> dict[str, Any]:
    columns = {name: [_typed(getattr(column, key)) for key in TOTALS] for name, column in totals.columns.items()}
    return {"rows": totals.rows, "bytes": totals.bytes, "filled": totals.filled, "columns": columns}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


_TYPES: dict[str, Any] = {
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
}


def storable(footer: Footer) -> Footer:
    """Return the footer without min and max of the types that a cache cannot hold."""
    values = footer.statistics.values
    if all(isinstance(known.min, _STORABLE) for known in values.values()):
        return footer
    remaining = {
        name: known if isinstance(known.min, _STORABLE) else ColumnStatistics(known.nulls)
        for name, known in values.items()
    }
    return replace(footer, statistics=replace(footer.statistics, values=remaining))


_STORABLE = (NoneType, bool, int, str, date, datetime, time, Decimal)


def _typed(value: Any) -> Any:
    """Return a min or max as JSON: the value itself, or its text by the name of its type.

    >>> _typed(3), _typed("eu"), _typed(date(2024, 1, 31)), _typed(Decimal("1.50"))
    (3, 'eu', {'date': '2024-01-31'}, {'decimal': '1.50'})
    """
    match value:
        case datetime() | date() | time():
            return {type(value).__name__: value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
    return value


def _value(stored: Any) -> Any:
    """Return the min or max that ``_typed`` wrote.

    >>> _value({"date": "2024-01-31"}), _value(3)
    (datetime.date(2024, 1, 31), 3)
    """
    if not isinstance(stored, dict):
        return stored
    ((kind, text),) = stored.items()
    return _TYPES[kind](text)
