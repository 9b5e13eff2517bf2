"""The tests of a project, and the rows that they hold, read from documents; each mistake has its file and line."""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.schema import SparkType, parse_type
from rivet_dagster.project.manifest import read_manifest
from rivet_dagster.project_tests.declared import (
    EXACT,
    FAILED,
    GRAPH,
    JOINT,
    PASSED,
    SCHEMA_ONLY,
    UNORDERED,
    WARNED,
    GivenRows,
    IncrementalRun,
    LineOfFile,
    LocatedKeys,
    ProjectTest,
)
from rivet_dagster.project_tests.documents import Extended, extend_documents, read_documents
from rivet_dagster.sql.columns.type_names import parse_ddl

T = TypeVar("T")

_KEYS_OF_ROWS = ("rows", "columns", "file", "schema")


def parse_rows(value: Any, location: LineOfFile, what: str) -> tuple[GivenRows | None, list[Diagnostic]]:
    """Return the rows that ``value`` declares, None where it has mistakes, and these."""
    if not isinstance(value, LocatedKeys):
        message = f"`{what}` must be a mapping with `rows` or `file`, not {convert.show(value)}"
        return None, [location.diagnostic("RVT-204", message)]
    errors = [
        value.locations[key].diagnostic("RVT-203", f"unknown key '{key}' of `{what}`{nearest(key, _KEYS_OF_ROWS)}")
        for key in value
        if key not in _KEYS_OF_ROWS
    ]
    if not {"rows", "file", "schema"} & value.keys():
        errors.append(location.diagnostic("RVT-205", f"`{what}` needs `rows`, or a `file` with them"))
    if "file" in value and {"rows", "columns"} & value.keys():
        errors.append(value.locations["file"].diagnostic("RVT-204", f"`{what}` has both `file` and `rows`: give one"))
    types = _converted(value, "schema", _schema, errors)
    file = _converted(value, "file", convert.text, errors)
    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    lines: tuple[int | None, ...] = ()
    if file is not None:
        location_of_file = value.locations["file"].file
        file = posixpath.normpath(posixpath.join(posixpath.dirname(location_of_file), file))
    if "rows" in value or "columns" in value:
        try:
            columns, rows, lines = _parsed_rows(value)
        except _RowError as error:
            errors.append(error.location.diagnostic("RVT-204", f"`{what}`: {error}"))
    if columns is None and types is not None and "rows" in value:
        columns, rows = tuple(name for name, _ in types), tuple((None,) * len(types) for _ in rows)
    if errors:
        return None, errors
    return GivenRows(location, columns, rows, lines, file, types), []


def _converted(value: LocatedKeys, key: str, read: Callable[[Any], T], errors: list[Diagnostic]) -> T | None:
    try:
        return read(value[key]) if key in value else None
    except ValueError as error:
        errors.append(value.locations[key].diagnostic("RVT-204", f"`{key}` {error}"))
        return None


class _RowError(ValueError):
    def __init__(self, message: str, location: LineOfFile) -> None:
        super().__init__(message)
        self.location = location


def _parsed_rows(
    value: LocatedKeys,
) -> tuple[tuple[str, ...] | None, tuple[tuple[Any, ...], ...], tuple[int | None, ...]]:
    entries = value.get("rows", [])
    location = value.locations.get("rows", value.location)
    if not isinstance(entries, list):
        raise _RowError(f"`rows` must be a list, not {convert.show(entries)}", location)
    if "columns" in value:
        return _listed(value, entries, location)
    names: dict[str, None] = {}
    for entry in entries:
        if not isinstance(entry, LocatedKeys):
            raise _RowError(f"a row must be a mapping of columns, not {convert.show(entry)}", location)
        names |= dict.fromkeys(entry)
    columns = tuple(names)
    _refuse_repeated(columns, location)
    rows = tuple(tuple(_plain(entry.get(name)) for name in columns) for entry in entries)
    return columns or None, rows, tuple(entry.location.line for entry in entries)


def _listed(
    value: LocatedKeys, entries: list[Any], location: LineOfFile
) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], tuple[int | None, ...]]:
    try:
        columns = convert.texts(value["columns"])
    except ValueError as error:
        raise _RowError(f"`columns` {error}", value.locations["columns"]) from None
    _refuse_repeated(columns, value.locations["columns"])
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, list):
            message = f"row {number} must be a list of values, as there are `columns`, not {convert.show(entry)}"
            raise _RowError(message, location)
        if len(entry) != len(columns):
            raise _RowError(f"row {number} has {len(entry)} values for {len(columns)} columns", location)
    return columns, tuple(tuple(map(_plain, entry)) for entry in entries), (location.line,) * len(entries)


def _refuse_repeated(columns: tuple[str, ...], location: LineOfFile) -> None:
    counted = Counter(name.lower() for name in columns)
    repeated = [name for name in columns if counted[name.lower()] > 1]
    if repeated:
        raise _RowError(f"columns differ in letter case alone: {', '.join(repeated)}", location)


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


_KEYS = (
    "name", "target", "scope", "inputs", "incremental", "expected", "compare", "tolerance", "options", "checks",
    "error", "extends",
)  # fmt: skip


def parse_test(extended: Extended) -> ProjectTest:
    """Return the test that a document declares."""
    document = extended.document
    if extended.errors:
        target = extended.keys.get("target")
        known = target if isinstance(target, str) else None
        return ProjectTest(document.name, document.location, known, files=extended.files, errors=extended.errors)
    return _Parser(extended).test()


class _Parser:
    def __init__(self, extended: Extended) -> None:
        self._document = extended.document
        self._keys = extended.keys
        self._files = extended.files
        self._errors: list[Diagnostic] = []
        self._locations: dict[str, LineOfFile] = {}

    def test(self) -> ProjectTest:
        keys = self._keys
        self._only(keys, _KEYS, "a test")
        self._locations |= {key: keys.locations[key] for key in keys}
        in_document = self._document.keys
        if "name" in in_document:
            self._read(in_document, "name", convert.text)
        target = self._read(keys, "target", convert.text)
        if target is None and "target" not in keys:
            self._wrong(self._document.location, "RVT-205", "`target` is missing: the joint whose rows are compared")
        expected = self._rows(keys, "expected")
        error = self._read(keys, "error", convert.text)
        checks = self._checks()
        compare = self._read(keys, "compare", convert.one_of(EXACT, UNORDERED, SCHEMA_ONLY)) or UNORDERED
        self._complete(expected, error, checks, compare)
        return ProjectTest(
            name=self._document.name,
            location=self._document.location,
            target=target,
            scope=self._read(keys, "scope", convert.one_of(JOINT, GRAPH)) or JOINT,
            inputs=self._inputs(),
            incremental=self._incremental(),
            expected=expected,
            compare=compare,
            tolerance=self._read(keys, "tolerance", _tolerance),
            ignored=self._ignored(),
            checks=checks,
            error=error,
            files=self._files,
            locations=self._locations,
            errors=tuple(self._errors),
        )

    def _complete(self, expected: GivenRows | None, error: str | None, checks: dict[str, str], compare: str) -> None:
        keys = self._keys
        if not {"expected", "error", "checks"} & keys.keys():
            message = "the test expects nothing: give `expected`, `error` or `checks`"
            self._wrong(self._document.location, "RVT-205", message)
        if "error" in keys and ("expected" in keys or checks):
            other = "expected" if "expected" in keys else "checks"
            self._wrong(keys.locations["error"], "RVT-204", f"`error` stands in place of `{other}`: give one of them")
        if expected is not None and expected.only_types and compare != SCHEMA_ONLY:
            message = "`expected` has no rows: give `rows` or a `file`, or `compare: schema_only`"
            self._wrong(keys.locations["expected"], "RVT-205", message)

    def _inputs(self) -> dict[str, GivenRows]:
        inputs = self._mapping(self._keys, "inputs")
        if inputs is None:
            return {}
        self._locations |= {f"inputs.{name}": location for name, location in inputs.locations.items()}
        given = {name: self._rows(inputs, name) for name in inputs}
        return {name: rows for name, rows in given.items() if rows is not None}

    def _incremental(self) -> IncrementalRun | None:
        keys = self._mapping(self._keys, "incremental")
        if keys is None:
            return None
        self._only(keys, ("watermark", "this"), "`incremental`")
        watermark = keys.get("watermark")
        if isinstance(watermark, list | LocatedKeys):
            self._wrong(keys.locations["watermark"], "RVT-204", "`watermark` must be one value")
        location = self._keys.locations["incremental"]
        return IncrementalRun(location, "watermark" in keys, watermark, self._rows(keys, "this"))

    def _checks(self) -> dict[str, str]:
        checks = self._mapping(self._keys, "checks")
        if checks is None:
            return {}
        self._locations |= {f"checks.{name}": location for name, location in checks.locations.items()}
        verdicts = {name: self._read(checks, name, convert.one_of(PASSED, WARNED, FAILED)) for name in checks}
        return {name: verdict for name, verdict in verdicts.items() if verdict is not None}

    def _ignored(self) -> tuple[str, ...]:
        options = self._mapping(self._keys, "options")
        if options is None:
            return ()
        self._only(options, ("ignore_columns",), "`options`")
        if "ignore_columns" in options:
            self._locations["options.ignore_columns"] = options.locations["ignore_columns"]
        return self._read(options, "ignore_columns", convert.texts) or ()

    def _rows(self, keys: LocatedKeys, key: str) -> GivenRows | None:
        if key not in keys:
            return None
        rows, errors = parse_rows(keys[key], keys.locations[key], key)
        self._errors += errors
        return rows

    def _mapping(self, keys: LocatedKeys, key: str) -> LocatedKeys | None:
        value = keys.get(key)
        if value is None:
            return None
        if not isinstance(value, LocatedKeys):
            self._wrong(keys.locations[key], "RVT-204", f"`{key}` must be a mapping, not {convert.show(value)}")
            return None
        return value

    def _read(self, keys: LocatedKeys, key: str, read: Callable[[Any], Any]) -> Any:
        if key not in keys:
            return None
        try:
            return read(keys[key])
        except ValueError as error:
            self._wrong(keys.locations[key], "RVT-204", f"`{key}` {error}")
            return None

    def _only(self, keys: LocatedKeys, known: Iterable[str], of: str) -> None:
        for key in keys.keys() - set(known):
            self._wrong(keys.locations[key], "RVT-203", f"unknown key '{key}' of {of}{nearest(key, known)}")

    def _wrong(self, location: LineOfFile, code: str, message: str) -> None:
        self._errors.append(location.diagnostic(code, message))


def _tolerance(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ValueError(f"must be a number of at least 0, not {convert.show(value)}")
    return float(value)


def read_tests(root: Path) -> tuple[ProjectTest, ...]:
    """Return all tests of the project in ``root``, in the order of their files; none is run or compiled.

    What is wrong in a document is in its test's ``errors``. Raises RVT-101, RVT-102, RVT-108.
    """
    manifest, errors = read_manifest(root)
    if manifest.tests is None:
        if errors:
            raise RivetError.of(errors)
        return ()
    return tuple(map(parse_test, extend_documents(read_documents(root, manifest.tests))))


def select_tests(tests: Sequence[ProjectTest], paths: Sequence[str], text: str | None) -> tuple[ProjectTest, ...]:
    """Return the tests below ``paths``, relative to the project, if there are any, whose name contains ``text``."""
    return tuple(
        test
        for test in tests
        if (text is None or text in test.name)
        and (not paths or any(_below(test.location.file, path) for path in paths))
    )


def _below(file: str, path: str) -> bool:
    return path == "." or posixpath.normpath(file) == path or file.startswith(f"{path}/")
