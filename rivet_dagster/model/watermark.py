"""Watermark values by the type of their column: parsed from text, written as text, and moved back by a lookback."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from rivet_dagster.model.convert import seconds, show

Value = int | float | Decimal | date | datetime | str

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DAY = 86400


@dataclass(frozen=True)
class Override:
    """A user's replacement of a table's watermark, as text; None is NULL, with which the next run reads everything."""

    value: str | None


def is_watermark_type(type_: str) -> bool:
    """Return whether a column of that type, in Spark's SQL spelling, can be a watermark."""
    return type_ in _BITS or type_ in _READERS or _DECIMAL.fullmatch(type_) is not None


def parse(text: str, type_: str) -> Value:
    """Parse ``text`` as a value of that type. Raise ValueError with a sentence.

    >>> parse("42", "bigint"), parse("2026-01-31", "date"), parse("1.50", "decimal(10,2)")
    (42, datetime.date(2026, 1, 31), Decimal('1.50'))
    """
    if type_ in _BITS:
        return _whole(text, type_)
    if _DECIMAL.fullmatch(type_):
        return _decimal(text, type_)
    return _READERS[type_](text)


def any_value(type_: str) -> Value:
    """Return some value of a type of watermark.

    >>> any_value("bigint"), any_value("date"), any_value("string")
    (0, datetime.date(2000, 1, 1), '0')
    """
    for text in ("0", "2000-01-01", "2000-01-01 00:00:00", "2000-01-01 00:00:00+00:00"):
        try:
            return parse(text, type_)
        except ValueError:
            continue
    raise KeyError(type_)


def as_text(value: Value) -> str:
    """Return the text that ``parse`` reads.

    >>> as_text(datetime(2026, 1, 31, 12, 30)), as_text(Decimal("1E+3"))
    ('2026-01-31 12:30:00', '1000')
    """
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def earlier(value: Value, type_: str, lookback: str | int | float) -> Value:
    """Move ``value`` back by a duration or a number. Raise ValueError where the lookback does not fit the type.

    >>> earlier(date(2026, 3, 1), "date", "1d"), earlier(1000, "bigint", 100)
    (datetime.date(2026, 2, 28), 900)
    """
    if isinstance(value, str):
        raise ValueError("a text cannot be moved back")
    try:
        if isinstance(value, date):
            return value - _duration(lookback, type_)
        return _difference(value, type_, lookback)
    except OverflowError:
        raise ValueError(f"{as_text(value)} cannot be moved back that far") from None


def _duration(lookback: str | int | float, type_: str) -> timedelta:
    if not isinstance(lookback, str):
        raise ValueError(f"{type_} is moved back by a duration like 2h or 3d, not by {show(lookback)}")
    duration = seconds(lookback)
    if type_ == "date" and duration % _DAY:
        raise ValueError(f"date is moved back by whole days, not by {lookback}")
    return timedelta(seconds=duration)


def _difference(value: int | float | Decimal, type_: str, lookback: str | int | float) -> Value:
    if isinstance(lookback, str):
        raise ValueError(f"{type_} is moved back by a number, not by {lookback}")
    if isinstance(value, Decimal):
        return value - Decimal(str(lookback))
    if isinstance(value, float):
        return value - lookback
    if lookback != int(lookback):
        raise ValueError(f"{type_} is moved back by a whole number, not by {lookback}")
    moved = value - int(lookback)
    if moved < -(2 ** (_BITS[type_] - 1)):
        raise OverflowError
    return moved


def _whole(text: str, type_: str) -> int:
    limit = 2 ** (_BITS[type_] - 1)
    digits = text if _WHOLE.fullmatch(text) and len(text) <= 20 else ""
    if not digits or not -limit <= int(digits) < limit:
        raise ValueError(f"{show(text)} is no {type_} like 42")
    return int(digits)


def _decimal(text: str, type_: str) -> Decimal:
    match = _DECIMAL.fullmatch(type_)
    assert match is not None
    precision, scale = int(match[1]), int(match[2])
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    fits = value.is_finite() and -int(value.as_tuple().exponent) <= scale
    if not fits or (value and value.adjusted() >= precision - scale):
        raise ValueError(f"{show(text)} is no {type_}")
    return value


def _double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{show(text)} is no number like 1.5")
    return value


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{show(text)} is no date like 2026-01-31") from None


def _timestamp(text: str) -> datetime:
    value = _time(text, "2026-01-31T12:30:00Z")
    if value.tzinfo is None:
        raise ValueError(f"{show(text)} has no offset from UTC, as in 2026-01-31T12:30:00Z")
    return value


def _timestamp_ntz(text: str) -> datetime:
    value = _time(text, "2026-01-31T12:30:00")
    if value.tzinfo is not None:
        raise ValueError(f"{show(text)} has an offset, and the column's times have none")
    return value


def _time(text: str, example: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{show(text)} is no time like {example}") from None


_READERS: dict[str, Callable[[str], Value]] = {
    "float": _double,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "string": str,
}
