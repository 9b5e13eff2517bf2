"""Values of seeds whose types are declared: what Spark casts each text to, as its CSV reader reads the same.

dbt gives Spark the texts of such columns as they are, and casts them without ANSI mode: what does not fit is NULL.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

Cast = Callable[[str], str | None]

_SPACE = "".join(map(chr, range(33))) + "\x7f"
_WHOLE_BITS = {"tinyint": 8, "byte": 8, "smallint": 16, "short": 16, "int": 32, "bigint": 64, "long": 64}
_WHOLE = re.compile(r"([+-]?)(?=.)([0-9]*)(?:\.[0-9]*)?")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([dDfF]?)")
_UNENDING = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}
_TRUE, _FALSE = frozenset(("t", "true", "y", "yes", "1")), frozenset(("f", "false", "n", "no", "0"))
_DECIMAL = re.compile(r"(?:decimal|numeric|dec)(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_DATE = re.compile(r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})([ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(r"[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]*)?)?\s*([A-Za-z+-].*)?")


def cast_to(kind: str) -> Cast | None:
    """Return the cast to a type of Spark; None for a type whose texts the reader reads as a cast does.

    >>> whole, amount, flag, day = map(cast_to, ("int", "decimal(5, 1)", "boolean", "date"))
    >>> whole(" 5.9"), whole("1e3"), amount("1.25"), amount("99999"), flag("Yes"), day("2024-1-5 x"), day("2024-02-30")
    ('5', None, '1.3', None, 'true', '2024-01-05', None)
    """
    kind = kind.lower()
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return _decimal(int(decimal[1] or 10), int(decimal[2] or 0))
    if kind in _WHOLE_BITS:
        return _whole(_WHOLE_BITS[kind])
    return _CASTS.get(kind)


def _whole(bits: int) -> Cast:
    def cast(text: str) -> str | None:
        match = _WHOLE.fullmatch(text.strip(_SPACE))
        if match is None:
            return None
        digits = match[2].lstrip("0") or "0"
        number = int(match[1] + digits) if len(digits) < 20 else 1 << 64
        return str(number) if -(1 << bits - 1) <= number < 1 << bits - 1 else None

    return cast


def _decimal(precision: int, scale: int) -> Cast:
    context = Context(prec=200, rounding=ROUND_HALF_UP)

    def cast(text: str) -> str | None:
        match = _NUMBER.fullmatch(text.strip(_SPACE))
        if match is None or match[2]:
            return None
        number = context.create_decimal(match[1])
        if number and number.adjusted() > precision:
            return None
        number = number.quantize(Decimal(1).scaleb(-scale), context=context) if number.adjusted() > -100 else Decimal(0)
        return f"{number or abs(number):f}" if abs(number) < Decimal(10) ** (precision - scale) else None

    return cast


def _double(text: str) -> str | None:
    text = text.strip(_SPACE)
    match = _NUMBER.fullmatch(text)
    if match is not None:
        return match[1]
    unending = _UNENDING.get(text.lstrip("+-").lower())
    if unending is None or (unending == "NaN" and text[:1] in "+-") or len(text) > len(text.lstrip("+-")) + 1:
        return None
    return f"-{unending}" if text.startswith("-") else unending


def _boolean(text: str) -> str | None:
    text = text.strip(_SPACE).lower()
    return "true" if text in _TRUE else "false" if text in _FALSE else None


def _date(text: str) -> str | None:
    match = _DATE.fullmatch(text.strip(_SPACE))
    return None if match is None else _day(match)


def _timestamp(text: str) -> str | None:
    text = text.strip(_SPACE)
    match = _DATE.fullmatch(text)
    if match is None:
        return text if re.match(r"T?[0-9]{1,2}:", text) else None  # a time of the day on which it is read
    day, rest = _day(match), match[4]
    time = _TIME.fullmatch(rest) if rest is not None else None
    if day is None or (rest is not None and time is None):
        return None
    is_time = time is None or (int(time[1]) < 24 and int(time[2]) < 60 and int(time[3] or 0) < 60)
    return text if is_time else None


def _without_zone(text: str) -> str | None:
    text = text.strip(_SPACE)
    match = _DATE.fullmatch(text)
    if match is None or _timestamp(text) is None:
        return None
    time = _TIME.fullmatch(match[4]) if match[4] is not None else None
    return text if time is None or time[5] is None else text[: -len(time[5])].rstrip()


def _day(match: re.Match[str]) -> str | None:
    """Return the date of a match; years that Python does not have are left to the reader."""
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    try:
        return str(datetime.date(year, month, day))
    except ValueError:
        is_ours = 1 <= year <= 9999
        return None if is_ours or not (1 <= month <= 12 and 1 <= day <= 31) else match[0]


_CASTS: dict[str, Cast] = {
    "double": _double,
    "float": _double,
    "real": _double,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ltz": _timestamp,
    "timestamp_ntz": _without_zone,
}
