"""Values of sample rows, short and without secrets, as JSON can have them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rivet_dagster.execution.difference.results import Row, Value
from rivet_dagster.model.convert import shortened
from rivet_dagster.secrets.redaction import redacted

CHARACTERS = 200
"""The maximum length of a value, as in the samples of checks."""


def shown_row(row: Mapping[str, Any]) -> Row:
    """Return a row with values that can be shown."""
    return {name: shown(value) for name, value in row.items()}


def shown(value: Any) -> Value:
    """Return a number or a boolean as it is, NULL as None, and any other value as a text of at most 200 characters.

    >>> from datetime import date
    >>> [shown(value) for value in (3, None, math.nan, date(2026, 1, 2), b"ab", {"a": [date(2026, 1, 2)]})]
    [3, None, 'NaN', '2026-01-02', '6162', '{"a": ["2026-01-02"]}']
    """
    if value is None:
        return None
    text = _text(value)
    safe = redacted(text)
    if isinstance(value, int | float) and safe == text and (isinstance(value, int) or math.isfinite(value)):
        return value
    return shortened(safe, CHARACTERS)


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns in which two rows differ; NaN equals itself, as NULL does.

    >>> differing({"a": 1, "b": math.nan, "c": None}, {"a": 2, "b": math.nan, "c": None})
    ('a',)
    """
    return tuple(name for name in new if not _same(old[name], new[name]))


def _same(old: Any, new: Any) -> bool:
    match old, new:
        case float(), float():
            return old == new or (math.isnan(old) and math.isnan(new))
        case dict(), dict():
            return old.keys() == new.keys() and all(_same(value, new[key]) for key, value in old.items())
        case list(), list():
            return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new)


def _text(value: Any) -> str:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes() | bytearray():
            return value.hex()
        case dict() | list():
            return json.dumps(_nested(value), ensure_ascii=False)
    return str(value)


def _nested(value: Any) -> Any:
    match value:
        case dict():
            return {_text(key): _nested(inner) for key, inner in value.items()}
        case list():
            return [_nested(inner) for inner in value]
        case float() if not math.isfinite(value):
            return _text(value)
        case None | int() | float() | str():
            return value
    return _text(value)
