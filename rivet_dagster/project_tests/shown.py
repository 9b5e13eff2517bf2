"""Values and rows of results, for JSON and for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rivet_dagster.model.convert import shortened
from rivet_dagster.secrets.redaction import redacted

_WIDEST = 40


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can have it: what JSON has no type for is a text."""
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: Any) -> Any:
    """Return a value as JSON can have it.

    >>> from datetime import date
    >>> json_value([1, math.nan, date(2026, 1, 2), {"a": b"ab"}, [("k", None)]])
    [1, 'NaN', '2026-01-02', {'a': '6162'}, {'k': None}]
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case str():
            return redacted(value)
        case bytes():
            return value.hex()
        case dict():
            return json_row(value)
        case [(_, _), *_] if all(isinstance(pair, tuple) for pair in value):
            return {str(json_value(key)): json_value(item) for key, item in value}
        case list() | tuple():
            return [json_value(item) for item in value]
    return redacted(str(value))


def text(value: Any) -> str:
    """Return a value on one line, shortened.

    >>> text(None), text("a\\nb"), text(""), text({"a": [1, None]})
    ('NULL', 'a\\\\nb', "''", '{a: [1, NULL]}')
    """
    return shortened(redacted(_text(value)), _WIDEST)


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return repr(value) if math.isfinite(value) else _not_finite(value)
        case str():
            return value.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") or "''"
        case bytes():
            return f"X'{value.hex()}'"
        case dict():
            return f"{{{', '.join(f'{name}: {_text(item)}' for name, item in value.items())}}}"
        case [(_, _), *_] if all(isinstance(pair, tuple) for pair in value):
            return f"{{{', '.join(f'{_text(key)}: {_text(item)}' for key, item in value)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
