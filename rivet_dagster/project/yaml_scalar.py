"""The values of plain YAML scalars, by the core schema of YAML 1.2."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None


class WrittenFloat(float):
    """A number that remembers how it is ``written``: as a variable of templates it is SQL, where ``1.10`` is exact."""

    written: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number.written = text
        return number

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        return WrittenFloat, (self.written,)


_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 1000


def yaml_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar. Raise ValueError for a number with too many digits.

    >>> [yaml_scalar(text) for text in ("012", "0o14", "1e3", "NO", "on", "12:30", "2024-01-01", "true", "~")]
    [12, 12, 1000.0, 'NO', 'on', '12:30', '2024-01-01', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(_bounded(text))
    if _BASED.fullmatch(text):
        return int(_bounded(text), 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def written_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar as ``yaml_scalar`` does; a fraction remembers how it is written.

    >>> written_scalar("0.10"), written_scalar("0.10").written, written_scalar("10")
    (0.1, '0.10', 10)
    """
    value = yaml_scalar(text)
    return WrittenFloat(text) if isinstance(value, float) and _FLOAT.fullmatch(text) else value


def _bounded(text: str) -> str:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has more than {_MOST_DIGITS} digits")
    return text
