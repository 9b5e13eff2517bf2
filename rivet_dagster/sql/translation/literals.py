"""Literals that functions take as patterns, formats or units, where only some values are proven."""

from __future__ import annotations

import re

_PLAIN_REGEX = re.compile(
    r"(?:[A-Za-z0-9 _@,;:/=#%&!~\"'<>-]|\[[A-Za-z0-9_ -]+\]|\.|\\[.d]|[*+?](?![*+?])|\^|\$\Z|[()|])+"
)
_FORMAT = (
    ("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"),
)  # fmt: skip
_MARKS = "-/:. "


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
