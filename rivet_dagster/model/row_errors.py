"""Row errors as data: what a joint declares, the table of errors, and how a query tells errors from rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Literal

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

FAIL, QUARANTINE = "fail", "quarantine"

CHECK = "evaluation_errors"
"""The name and kind of the check that judges the errors of a quarantining group."""

SUFFIX = "__errors"
"""The end of the name of a table's error table, unless `errors_table` gives another one."""

QUERY_COLUMNS = ("joint", "code", "expression", "file", "line", "message", "row", "key")
"""The columns of the queries of ``RowErrors``; ``line`` is an INT, all others are STRINGs."""

ERROR_TYPES = {**dict.fromkeys(QUERY_COLUMNS, "string"), "line": "int"} | {
    "run_id": "string",
    "version": "string",
    "found_at": "timestamp",
}
"""The columns of an error table, in order, with their types as Spark's SQL writes them.

Error tables of earlier releases lack ``found_at``, the time when the run began that found the error.
"""

ERROR_COLUMNS = tuple(ERROR_TYPES)

ERROR_SCHEMA = json.dumps({
    "type": "struct",
    "fields": [
        {"name": name, "type": "integer" if kind == "int" else kind, "nullable": True, "metadata": {}}
        for name, kind in ERROR_TYPES.items()
    ],
})  # fmt: skip
"""Spark's JSON of the same columns."""


@dataclass(frozen=True, slots=True)
class MaxErrors:
    """The greatest number of errors with which a version is published: ``count``, or ``percent`` of rows and errors."""

    count: int | None = None
    percent: float | None = None

    def allows(self, errors: int, rows: int) -> bool:
        """Return whether that many errors beside that many good rows are within the limit.

        >>> MaxErrors(count=2).allows(2, 0), MaxErrors(percent=5.0).allows(6, 94)
        (True, False)
        """
        if self.count is not None:
            return errors <= self.count
        # Exact: 0.29 percent as a binary fraction is less than 0.29.
        return self.percent is None or errors * 100 <= Fraction(str(self.percent)) * (rows + errors)

    def __str__(self) -> str:
        """Return the limit as it is declared.

        >>> str(MaxErrors(count=100)), str(MaxErrors(percent=2.5))
        ('100', '2.5%')
        """
        return str(self.count) if self.count is not None else f"{self.percent}".removesuffix(".0") + "%"


@dataclass(frozen=True, slots=True)
class OnError:
    """What a joint declares for rows whose evaluation raises an error.

    With the mode ``fail`` the run fails. With ``quarantine`` the other rows are published, and the errors in
    ``errors_table`` (default: the table's name and SUFFIX); with more than ``max_errors`` nothing is published. Errors
    that were found more than ``max_age`` days ago are left out of the next version.
    """

    mode: str = FAIL
    max_errors: MaxErrors | None = None
    errors_table: str | None = None
    max_age: int | None = None

    @property
    def quarantines(self) -> bool:
        """Whether errors are published beside the rows."""
        return self.mode == QUARANTINE

    def error_table(self, table: str) -> ErrorTable | None:
        """Return the table of the errors of ``table``, None where they fail the run.

        >>> OnError(QUARANTINE).error_table("shop.orders")
        ErrorTable(table='shop.orders__errors', max_errors=None, max_age=None)
        """
        name = self.errors_table or table.rstrip("/") + SUFFIX
        return ErrorTable(name, self.max_errors, self.max_age) if self.quarantines else None


def parse_on_error(value: Any) -> OnError:
    """Parse a mode, or a mapping with ``mode``. Raise ValueError.

    >>> parse_on_error({"mode": "quarantine", "max_errors": "5%"})
    OnError(mode='quarantine', max_errors=MaxErrors(count=None, percent=5.0), errors_table=None, max_age=None)
    """
    if not isinstance(value, Mapping):
        return OnError(_mode(value))
    options = convert.mapping(value)
    for key in options:
        if key not in _CONVERTERS:
            raise convert.UnknownKeyError(f"has the unknown key '{key}'{nearest(key, _CONVERTERS)}", key)
    if options.get("mode") is None:
        raise ValueError("needs `mode`")
    converted: dict[str, Any] = {}
    for key, given in options.items():
        if given is None:
            continue
        try:
            converted[key] = _CONVERTERS[key](given)
        except ValueError as error:
            raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
    if converted["mode"] == FAIL and len(converted) > 1:
        other = next(key for key in converted if key != "mode")
        raise convert.WrongKeyError(f"has `{other}`, which goes with the mode {QUARANTINE}, not {FAIL}", other)
    return OnError(**converted)


def _mode(value: Any) -> str:
    if value not in (FAIL, QUARANTINE):
        hint = nearest(value, (FAIL, QUARANTINE), listed=False) if isinstance(value, str) else ""
        raise ValueError(f"must be {FAIL} or {QUARANTINE}, not {convert.show(value)}{hint}")
    return str(value)


def _max_errors(value: Any) -> MaxErrors:
    if isinstance(value, MaxErrors):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return MaxErrors(count=value)
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) > 100:
        raise ValueError(f"must be a whole number of at least 0 or a part from 0% to 100%, not {convert.show(value)}")
    return MaxErrors(percent=float(match[1]))


_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")

_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "mode": _mode,
    "max_errors": _max_errors,
    "errors_table": convert.text,
    "max_age": convert.days,
}


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The table of the same catalog in which the errors of a quarantining group are published with its rows.

    Errors that were found more than ``max_age`` days ago, whole days in UTC, are not retained; None: all may be.
    """

    table: str
    max_errors: MaxErrors | None = None
    max_age: int | None = None

    def oldest(self, now: datetime) -> datetime | None:
        """Return the time before which an error was found too long ago to be retained at ``now``; None without one.

        >>> ErrorTable("t__errors", max_age=90).oldest(datetime(2026, 4, 1, 12, tzinfo=UTC))
        datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
        """
        if self.max_age is None:
            return None
        today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=self.max_age)


Proof = Literal["always", "with rows", "never"]
"""When the success of a query proves that no row fails: always, if it gives a row at all, or never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedTypes:
    """Columns whose types decide whether Spark casts a string to compare them: a ``construct`` on a ``line``.

    It does if a column of the query ``left`` is a string, and the one of its name of ``right`` is not, or the other way
    round. Then a success of the author's query proves nothing; if the rows that fail are not ``is_separated`` from the
    others, the run is refused.
    """

    left: str
    right: str
    construct: str
    line: int
    is_separated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RowErrors:
    """The two halves of a query in which the evaluation of a row may raise an error.

    ``good`` is the query's text without the rows whose evaluation fails. ``queries`` give those rows' errors, one query
    for each operator, with QUERY_COLUMNS; they read the same tables as the query's text does. ``proof`` says when a
    success of the author's query proves that there are no errors. ``compared`` is to be refused before it writes.
    """

    separable: Literal[True] = True
    good: str
    queries: tuple[str, ...]
    proof: Proof = "never"
    compared: tuple[ComparedTypes, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RowByRow:
    """A query each of whose rows comes from one row of the table that it ``reads``.

    ``flags`` and ``errors`` are texts of it in which a row stays with a flag, or with its errors, where an expression
    fails; they read the table INPUT of `sql.row_errors.row_by_row` and give its further columns, too.

    ``failing`` are the names of its columns of which the expression may fail, and ``passed`` those that are columns of
    the table, with the names there, all in lower case. It may also pass on all columns of the table (``passes_all``),
    or leave out rows (``filters``).
    """

    reads: str
    flags: str
    errors: str
    failing: tuple[str, ...] = ()
    passed: tuple[tuple[str, str], ...] = ()
    passes_all: bool = False
    filters: bool = False

    def read_for(self, columns: frozenset[str] | None) -> frozenset[str] | None:
        """Return the columns of the table that are certainly evaluated where ``columns`` are; None stands for all.

        >>> RowByRow(reads="t", flags="", errors="", passed=(("a", "b"),)).read_for(None)
        frozenset({'b'})
        """
        if self.passes_all and columns is None:
            return None
        inner_columns = [inner for outer, inner in self.passed if columns is None or outer in columns]
        return frozenset([*inner_columns, *(columns if self.passes_all and columns is not None else ())])


@dataclass(frozen=True, kw_only=True, slots=True)
class NotSeparable:
    """Why the errors of a query cannot be separated from its rows: a construct, and its line in the query's text."""

    separable: Literal[False] = False
    construct: str
    line: int
