"""Seeds: CSV files with the types that dbt would guess, and the same values where Spark reads them."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from rivet_dagster.dbt.translation.seed_casts import cast_to

_NULLS = frozenset(("null", ""))
_CURRENCIES = "؋$ƒ៛¥₡₱£€¢﷼₪₩₭₮₦฿₤₫"
_ISO = re.compile(r"\d{4}-?\d{2}-?\d{2}T\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?")
_QUOTED_NOTHING = re.compile(r'(?:^|[,;|\t])""(?=[,;|\t\r\n]|\Z)', re.MULTILINE)
_TYPES = {
    "text": "string",
    "varchar": "string",
    "char": "string",
    "character varying": "string",
    "int64": "bigint",
    "int8": "bigint",
    "int4": "int",
    "integer": "int",
    "float8": "double",
    "float64": "double",
    "bool": "boolean",
    "timestamptz": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}
"""Types of other databases that Spark knows by another name."""


@dataclass(frozen=True)
class SeedFile:
    """A seed: its columns with their types, what Spark's reader is told, and the file's new text, None if unchanged."""

    columns: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]
    text: str | None
    notes: tuple[str, ...] = ()

    @property
    def schema(self) -> str:
        """The columns as Spark's DDL."""
        return ", ".join(f"{_quoted(name)} {kind}" for name, kind in self.columns)


def read_seed(text: str, delimiter: str = ",", declared: Mapping[str, str] | None = None) -> SeedFile:
    r"""Return the seed in a CSV text. Raise ValueError.

    >>> seed = read_seed("id,paid,day,note\n1,true,2024-01-31,\n2,FALSE,null,b\n")
    >>> seed.schema, seed.text
    ('id bigint, paid boolean, day date, note string', 'id,paid,day,note\n1,true,2024-01-31,\n2,false,,b\n')
    """
    declared = declared or {}
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"the delimiter {delimiter!r} is no single character")
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ValueError(f"it is no CSV: {error}") from None
    if not lines:
        raise ValueError("the file is empty")
    header = _column_names(lines[0])
    rows = [_padded(line, header, number) for number, line in enumerate(lines[1:], 2)]
    columns, converted, notes = [], [], _without_column(declared, header)
    for position, name in enumerate(header):
        cells = [row[position] for row in rows]
        if name in declared:
            kind, convert = _declared(declared[name], name, notes)
        else:
            kind = guessed_type(cells)
            convert = _CONVERTERS[kind]
        columns.append((name, kind))
        converted.append([convert(cell) for cell in cells])
    written = [list(row) for row in zip(*converted, strict=True)] if rows else []
    same = header == lines[0] and all(
        [cell or "" for cell in new] == old for new, old in zip(written, lines[1:], strict=True)
    )
    unchanged = same and not _QUOTED_NOTHING.search(text)
    options: dict[str, Any] = {} if delimiter == "," else {"sep": delimiter}
    cells_of_text = [cell for row in written for cell in row if cell]
    if any('"' in cell or "\\" in cell for cell in cells_of_text):
        options["escape"] = '"'
    if any("\n" in cell or "\r" in cell for cell in cells_of_text):
        options["multiLine"] = True
    alone = len(header) == 1 and any(cell is None for row in written for cell in row)
    if unchanged and not alone:
        return SeedFile(tuple(columns), options, None, tuple(notes))
    null = "\\N" if alone else ""
    if alone:
        options["nullValue"] = null
    shown = ", ".join(_differences(header, lines[1:], written)) or "empty texts in quotes"
    note = f"the values are written as dbt reads them ({shown})"
    return SeedFile(tuple(columns), options, _csv([header, *written], delimiter, null), (*notes, note))


def _without_column(declared: Mapping[str, str], header: Sequence[str]) -> list[str]:
    return [f"column_types names '{name}', which is no column" for name in declared if name not in header]


def _declared(given: str, column: str, notes: list[str]) -> tuple[str, Callable[[str | None], str | None]]:
    """Return a declared type as Spark's reader knows it, and how its values are read. Raise ValueError."""
    kind = _TYPES.get(given.strip().lower(), given.strip())
    if re.fullmatch(r"(?:var)?char\s*\(\s*\d+\s*\)|character varying\s*\(\s*\d+\s*\)", kind, re.IGNORECASE):
        notes.append(f"the type {kind} of {column} is string, as a CSV file has texts of any length")
        kind = "string"
    if kind.lower() in ("string", "binary"):
        return kind, _text
    cast = cast_to(kind)
    if cast is None:
        raise ValueError(f"a CSV file has no values of the type '{kind}' ({column})")

    def convert(cell: str | None) -> str | None:
        text = _text(cell)
        return None if text is None else cast(text)

    return kind, convert


def guessed_type(cells: Iterable[str | None]) -> str:
    """Return the type that dbt guesses for a column: the first one that all of its values fit.

    >>> [guessed_type(cells) for cells in (["1", "2.50"], ["1,000", ""], ["2024-01-31"], ["true", "x"], ["TRUE"], [""])]
    ['double', 'bigint', 'date', 'string', 'boolean', 'bigint']
    """
    values = [cell.strip() for cell in cells if cell is not None and cell.strip().lower() not in _NULLS]
    numbers = [number for value in values if (number := _number(value)) is not None]
    if len(numbers) == len(values):
        return "bigint" if all(number == number.to_integral_value() for number in numbers) else "double"
    if all(_parsed(value, "%Y-%m-%d") for value in values):
        return "date"
    if all(_parsed(value, "%Y-%m-%d %H:%M:%S") for value in values) or all(map(_ISO.fullmatch, values)):
        return "timestamp"
    if all(value.replace(",", "").strip().lower() in ("true", "false") for value in values):
        return "boolean"
    return "string"


def _number(text: str) -> Decimal | None:
    text = text.strip("%")
    sign = -1 if text.startswith("-") else 1
    text = text[1:] if sign < 0 else text
    for symbol in _CURRENCIES:
        text = text.strip(symbol)
    try:
        number = Decimal(text.replace(",", "")) * sign
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _parsed(text: str, form: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, form)
    except ValueError:
        return None


def _text(cell: str | None) -> str | None:
    return None if cell is None or cell.strip().lower() in _NULLS else cell


def _stripped(cell: str | None) -> str | None:
    text = _text(cell)
    return None if text is None else text.strip()


def _whole(cell: str | None) -> str | None:
    text = _stripped(cell)
    number = _number(text) if text is not None else None
    return text if number is None else str(int(number))


def _double(cell: str | None) -> str | None:
    text = _stripped(cell)
    number = _number(text) if text is not None else None
    plain = text is None or number is None or re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", text)
    return text if plain else str(number)


def _boolean(cell: str | None) -> str | None:
    text = _stripped(cell)
    return None if text is None else text.replace(",", "").strip().lower()


def _moment(form: str) -> Callable[[str | None], str | None]:
    def convert(cell: str | None) -> str | None:
        text = _stripped(cell)
        parsed = _parsed(text, form) if text is not None else None
        return text if parsed is None else parsed.strftime(form)

    return convert


_CONVERTERS: dict[str, Callable[[str | None], str | None]] = {
    "bigint": _whole,
    "double": _double,
    "boolean": _boolean,
    "date": _moment("%Y-%m-%d"),
    "timestamp": _moment("%Y-%m-%d %H:%M:%S"),
    "string": _text,
}


def _column_names(header: Sequence[str]) -> list[str]:
    """Return the names of the columns as dbt has them: those without one are letters, repeated ones are numbered."""
    names: list[str] = []
    for position, name in enumerate(header):
        name = name.strip() or chr(ord("a") + position % 26)
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return names


def _padded(line: list[str], header: Sequence[str], number: int) -> list[str | None]:
    if len(line) > len(header):
        raise ValueError(f"row {number} has {len(line)} values, but there are {len(header)} columns")
    return [*line, *[None] * (len(header) - len(line))]


def _differences(header: Sequence[str], old: list[list[str]], new: list[list[str | None]]) -> list[str]:
    """Return which columns have values that are written otherwise, each with the first of them."""
    shown = {}
    for before, after in zip(old, new, strict=True):
        for name, was, becomes in zip(header, before, after, strict=False):
            if was != (becomes or "") and name not in shown:
                shown[name] = f"{name}: {was[:30]!r} is {'NULL' if becomes is None else repr(becomes[:30])}"
    return list(shown.values())[:3]


def _csv(rows: Iterable[Sequence[str | None]], delimiter: str, null: str) -> str:
    target = io.StringIO()
    writer = csv.writer(target, delimiter=delimiter, lineterminator="\n")
    writer.writerows([null if cell is None else cell for cell in row] for row in rows)
    return target.getvalue()


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"
