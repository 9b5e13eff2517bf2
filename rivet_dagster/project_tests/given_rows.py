"""Rows of a test as they are written: ``rows``, ``columns`` and ``rows``, or a ``file``, with or without ``schema``."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.schema import SparkType, parse_type
from rivet_dagster.project_tests.declared import GivenRows, LineOfFile, LocatedKeys
from rivet_dagster.sql.columns.type_names import parse_ddl

T = TypeVar("T")

_KEYS = ("rows", "columns", "file", "schema")


def parse_rows(value: Any, place: LineOfFile, what: str) -> tuple[GivenRows | None, list[Diagnostic]]:
    """Return the rows that ``value`` declares, None where it has mistakes, and these."""
    if not isinstance(value, LocatedKeys):
        message = f"`{what}` must be a mapping with `rows` or `file`, not {convert.show(value)}"
        return None, [place.diagnostic("RVT-204", message)]
    errors = [
        value.places[key].diagnostic("RVT-203", f"unknown key '{key}' of `{what}`{nearest(key, _KEYS)}")
        for key in value
        if key not in _KEYS
    ]
    if not {"rows", "file", "schema"} & value.keys():
        errors.append(place.diagnostic("RVT-205", f"`{what}` needs `rows`, or a `file` with them"))
    if "file" in value and {"rows", "columns"} & value.keys():
        errors.append(value.places["file"].diagnostic("RVT-204", f"`{what}` has both `file` and `rows`: give one"))
    types = _converted(value, "schema", _schema, errors)
    file = _converted(value, "file", convert.text, errors)
    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    lines: tuple[int | None, ...] = ()
    if file is not None:
        place_of_file = value.places["file"].file
        file = posixpath.normpath(posixpath.join(posixpath.dirname(place_of_file), file))
    if "rows" in value or "columns" in value:
        try:
            columns, rows, lines = _rows(value)
        except _RowError as error:
            errors.append(error.place.diagnostic("RVT-204", f"`{what}`: {error}"))
    if errors:
        return None, errors
    return GivenRows(place, columns, rows, lines, file, types), []


def _converted(value: LocatedKeys, key: str, read: Callable[[Any], T], errors: list[Diagnostic]) -> T | None:
    try:
        return read(value[key]) if key in value else None
    except ValueError as error:
        errors.append(value.places[key].diagnostic("RVT-204", f"`{key}` {error}"))
        return None


class _RowError(ValueError):
    def __init__(self, message: str, place: LineOfFile) -> None:
        super().__init__(message)
        self.place = place


def _rows(value: LocatedKeys) -> tuple[tuple[str, ...] | None, tuple[tuple[Any, ...], ...], tuple[int | None, ...]]:
    entries = value.get("rows", [])
    place = value.places.get("rows", value.place)
    if not isinstance(entries, list):
        raise _RowError(f"`rows` must be a list, not {convert.show(entries)}", place)
    if "columns" in value:
        return _listed(value, entries, place)
    names: dict[str, None] = {}
    for entry in entries:
        if not isinstance(entry, LocatedKeys):
            raise _RowError(f"a row must be a mapping of columns, not {convert.show(entry)}", place)
        names |= dict.fromkeys(entry)
    columns = tuple(names)
    _refuse_repeated(columns, place)
    rows = tuple(tuple(_plain(entry.get(name)) for name in columns) for entry in entries)
    return columns or None, rows, tuple(entry.place.line for entry in entries)


def _listed(
    value: LocatedKeys, entries: list[Any], place: LineOfFile
) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], tuple[int | None, ...]]:
    try:
        columns = convert.texts(value["columns"])
    except ValueError as error:
        raise _RowError(f"`columns` {error}", value.places["columns"]) from None
    _refuse_repeated(columns, value.places["columns"])
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, list):
            message = f"row {number} must be a list of values, as there are `columns`, not {convert.show(entry)}"
            raise _RowError(message, place)
        if len(entry) != len(columns):
            raise _RowError(f"row {number} has {len(entry)} values for {len(columns)} columns", place)
    return columns, tuple(tuple(map(_plain, entry)) for entry in entries), (place.line,) * len(entries)


def _refuse_repeated(columns: tuple[str, ...], place: LineOfFile) -> None:
    counted = Counter(name.lower() for name in columns)
    repeated = [name for name in columns if counted[name.lower()] > 1]
    if repeated:
        raise _RowError(f"columns differ in letter case alone: {', '.join(repeated)}", place)


def _schema(value: Any) -> tuple[tuple[str, SparkType], ...]:
    fields = parse_ddl(convert.text(value))
    if not fields:
        raise ValueError(f"must be columns as in `id BIGINT, name STRING`, not {convert.show(value)}")
    untyped = [field.name for field in fields if field.type is None]
    if untyped:
        raise ValueError(f"gives {', '.join(untyped)} a type that no value of a test can have")
    return tuple((field.name, parse_type(str(field.type))) for field in fields)


def _plain(value: Any) -> Any:
    if isinstance(value, LocatedKeys):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
