"""Statistics of a version's data files: taken from the file beside the version, read from footers where one is new.

``<version>.files.json`` holds rows and bounds of each file by its name, with the size and time by which it is known
again in later versions that share it. A version of an earlier release has none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.damage import damage
from rivet_dagster.catalogs.filesystem.footers import Footer, footer_of, together
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ColumnStatistics, Statistics

Mark = tuple[str, int, int]
"""A file's name, size and time: what tells it apart from itself with other content."""


def mark(path: Path) -> Mark:
    """Return the mark of a file. Raises RVT-407 where it has vanished."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise RivetError("RVT-407", f"the file {path}, which the engine wrote, has vanished") from error
    return (path.name, status.st_size, status.st_mtime_ns)


class Footers:
    """The footers of a table's files, each read once at most; ``beside`` are files that tell some of them."""

    def __init__(self, *beside: Path) -> None:
        self._beside = list(beside)
        self._known: dict[Mark, Footer] = {}

    def of(self, path: Path) -> Footer:
        """Return what a file tells. Raises RVT-407."""
        while self._beside:
            self._known |= _read(self._beside.pop())
        key = mark(path)
        if key not in self._known:
            self._known[key] = footer_of(path)
        return self._known[key]

    def statistics(self, files: Iterable[Path]) -> Statistics:
        """Return what ``files``, at least one, tell together. Raises RVT-407."""
        return together([self.of(path).statistics for path in files])

    def write(self, files: Iterable[Path], beside: Path) -> None:
        """Put what ``files`` tell on disk, as one that can be given as ``beside``. Raises OSError."""
        known = {mark(path): self.of(path) for path in files}
        with open(beside, "w", encoding="utf-8") as file:
            file.write(json.dumps(_as_json(known), separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())


_REMEDY = "Remove it: the files themselves tell the same."


def _read(path: Path) -> dict[Mark, Footer]:
    """Return what stands in a file, nothing where there is none. Raises RVT-407 where it is damaged."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    with damage(path, _REMEDY):
        fields = json.loads(text)
        schemas = fields["schemas"]
        return {
            (name, file["size"], file["mtime_ns"]): _footer(file, schemas[file["schema"]])
            for name, file in fields["files"].items()
        }


def _footer(file: Mapping[str, Any], schema: Mapping[str, Any]) -> Footer:
    columns = tuple((name, type_) for name, type_ in schema["columns"])
    values = {
        name: ColumnStatistics(nulls, _value(least), _value(greatest))
        for name, (nulls, least, greatest) in file["values"].items()
    }
    return Footer(Statistics(int(file["rows"]), file["size"], columns, values), schema["spark"])


def _as_json(known: Mapping[Mark, Footer]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    files = {}
    for (name, size, mtime_ns), footer in known.items():
        schema = {"spark": footer.schema, "columns": footer.statistics.columns}
        if schema not in schemas:
            schemas.append(schema)
        files[name] = {
            "size": size,
            "mtime_ns": mtime_ns,
            "schema": schemas.index(schema),
            "rows": footer.statistics.rows,
            "values": {name: _plain(value) for name, value in footer.statistics.values.items()},
        }
    return {"schemas": schemas, "files": files}


def _plain(known: ColumnStatistics) -> list[Any]:
    """The numbers of one column; without bounds where they are of a type that JSON has no text for here."""
    try:
        return [known.nulls, _typed(known.min), _typed(known.max)]
    except TypeError:
        return [known.nulls, None, None]


_TYPES: dict[str, Any] = {
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
}


def _typed(value: Any) -> Any:
    """A bound as JSON: as it is, or as a text with the name of its type.

    >>> _typed(3), _typed("eu"), _typed(date(2024, 1, 31)), _typed(Decimal("1.50"))
    (3, 'eu', {'date': '2024-01-31'}, {'decimal': '1.50'})
    """
    match value:
        case None | bool() | int() | str():
            return value
        case datetime() | date() | time():
            return {type(value).__name__: value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
    raise TypeError(value)


def _value(found: Any) -> Any:
    """The bound that ``_typed`` wrote.

    >>> _value({"date": "2024-01-31"}), _value(3)
    (datetime.date(2024, 1, 31), 3)
    """
    if not isinstance(found, dict):
        return found
    ((kind, text),) = found.items()
    return _TYPES[kind](text)
