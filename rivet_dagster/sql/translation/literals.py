"""Literals that functions take as patterns, formats or units, where only some values are proven."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_PLAIN_REGEX = re.compile(
    r"(?:[A-Za-z0-9 _@,;:/=#%&!~\"'<>-]|\[[A-Za-z0-9_ -]+\]|\.|\\[.d]|[*+?](?![*+?])|\^|\$\Z|[()|])+"
)
_FORMAT = (
    ("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"),
)  # fmt: skip
_MARKS = "-/:. "
_DATE, _TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
# Java's offsets end at 18 hours, Python's do not.
_INSTANT = re.compile(f"{_DATE}[ T]{_TIME}(Z| UTC|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00))")


def converted(kind: str, value: str | int | None) -> str | int | None:
    """Return a literal as the other engine takes it; None where it is not of the kind.

    >>> converted("<format>", "yyyy-MM-dd"), converted("<regex>", "a+b"), converted("'month'", "MONTH")
    ('%Y-%m-%d', 'a+b', 'MONTH')
    """
    if kind == "<count>":
        return value if isinstance(value, int) and value >= 0 else None
    if kind == "<small>":
        return value if isinstance(value, int) and abs(value) < 1_000_000 else None
    if kind == "<nonzero>":
        return value if isinstance(value, int) and value else None
    if kind == "<position>":
        return value if isinstance(value, int) and value > 0 else None
    if kind[1:-1].isdigit():
        return value if value == int(kind[1:-1]) else None
    if not isinstance(value, str):
        return None
    if kind == "<text>":
        return value
    if kind == "<filled>":
        return value if value else None
    if kind == "<ascii>":
        return value if value and value.isascii() else None
    if kind == "<regex>":
        return _regex(value)
    if kind == "<pattern>":
        return _regex(value) if "$" not in value else None
    if kind == "<plain>":
        return value if value and re.fullmatch(r"[A-Za-z0-9 _@,;:/=#%&!~\"'<>-]+", value) else None
    if kind == "<like>":
        return value if "\\" not in value else None
    if kind == "<ilike>":
        return value if "\\" not in value and value.isascii() else None
    if kind == "<format>":
        return _format(value)
    if kind.startswith("'"):
        return value if value.lower() == kind[1:-1] else None
    raise ValueError(kind)


def _format(text: str) -> str | None:
    made = ""
    while text:
        part = next(((letters, there) for letters, there in _FORMAT if text.startswith(letters)), None)
        if part is not None and not text[len(part[0]) :].startswith(part[0][0]):
            made, text = made + part[1], text[len(part[0]) :]
        elif text[0] in _MARKS:
            made, text = made + text[0], text[1:]
        else:
            return None
    return made or None


def _regex(pattern: str) -> str | None:
    """Return a regular expression of Java for engines to which fewer characters end a line."""
    if not _PLAIN_REGEX.fullmatch(pattern) or "(?" in pattern or not _balanced(pattern):
        return None
    made = pattern.replace("\\.", "\0").replace(".", f"[^{_LINE_ENDS}]").replace("\0", "\\.")
    return f"{made[:-1]}(?:\\r\\n|[{_LINE_ENDS}])?\\z" if made.endswith("$") else made


_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"


def _balanced(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def instant(text: str) -> int | None:
    """Return the microseconds since 1970 of a time with a zone, None for a text of another form, or before 1900.

    >>> instant("2024-07-01 12:30:00 UTC"), instant("2024-07-01T12:30:00.5+02:00"), instant("2024-07-01 12:30:00")
    (1719837000000000, 1719829800500000, None)
    """
    if not _INSTANT.fullmatch(text):
        return None
    try:
        since = datetime.fromisoformat(text.replace(" UTC", "Z")) - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError:
        return None
    micros = since // timedelta(microseconds=1)
    return micros if since.days > -25_000 else None
