"""Conversion of users' values to the model's; each function raises ValueError with a sentence for the user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rivet_dagster.secrets.redaction import redacted

NAME = re.compile(r"^[a-z][a-z0-9_]*\Z")
LONGEST_NAME = 128
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
LONGEST = 36_500 * 86_400
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class WrongKeyError(ValueError):
    """An error at one ``key`` of a mapping."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class UnknownKeyError(WrongKeyError):
    """A ``key`` of a mapping that has no meaning."""


def text(value: Any) -> str:
    """Return a non-empty text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a text, not {show(value)}")
    return value


def name(value: Any) -> str:
    """Return the name of a joint, catalog, engine or profile."""
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(f"{show(value)} is no name; names match ^[a-z][a-z0-9_]*$")
    if len(value) > LONGEST_NAME:
        raise ValueError(f"{show(value)} has {len(value)} characters; names have at most {LONGEST_NAME}")
    return value


def boolean(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {show(value)}")
    return value


class Whole:
    """A converter of integers of at least ``least``, and at most ``most`` if that is given."""

    def __init__(self, least: int, most: int | None = None) -> None:
        self.least, self.most = least, most

    def __call__(self, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or value < self.least or (self.most is not None and value > self.most):
            allowed = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
            raise ValueError(f"must be a whole number {allowed}, not {show(value)}")
        return int(value)


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    """Return a converter of integers of at least ``least``, and at most ``most`` if that is given."""
    return Whole(least, most)


class Choice:
    """A converter that allows a few words."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: Any) -> str:
        if value not in self.allowed:
            raise ValueError(f"must be one of {', '.join(self.allowed)}, not {show(value)}")
        return str(value)


def one_of(*allowed: str) -> Callable[[Any], str]:
    """Return a converter that allows a few words."""
    return Choice(*allowed)


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of distinct texts as a tuple; a single text is a list of one."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence) or not all(isinstance(v, str) and v for v in value):
        raise ValueError(f"must be a list of texts, not {show(value)}")
    if len(set(value)) < len(value):
        repeated = sorted(text for text, times in Counter(value).items() if times > 1)
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return tuple(value)


def column_names(value: Any) -> tuple[str, ...]:
    """Return at least one column name; a single text is a list of one.

    >>> column_names("id")
    ('id',)
    """
    names = texts(value)
    if not names:
        raise ValueError("must name at least one column")
    return tuple(name for name, _ in columns(names))


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping whose keys are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise ValueError(f"must be a mapping, not {show(value)}")
    return dict(value)


def tags(value: Any) -> dict[str, str]:
    """Return tags as a mapping; a list is converted to keys with empty values."""
    if isinstance(value, str | Sequence):
        return dict.fromkeys(texts(value), "")
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a list or a mapping, not {show(value)}")
    return {k: "" if v is None else str(v) for k, v in mapping(value).items()}


def columns(value: Any) -> tuple[tuple[str, str | None], ...]:
    """Return source columns in order, as (name, None) or (alias, expression)."""
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"must be a list of columns, not {show(value)}")
    pairs: list[tuple[str, str | None]] = []
    for entry in value:
        if isinstance(entry, Mapping):
            pairs.extend((text(k), text(v)) for k, v in entry.items())
        elif isinstance(entry, tuple) and len(entry) == 2:  # as the model holds it
            pairs.append((text(entry[0]), None if entry[1] is None else text(entry[1])))
        else:
            pairs.append((text(entry), None))
    if not pairs:
        raise ValueError("must name at least one column")
    counted = Counter(name.lower() for name, _ in pairs)
    repeated = [name for name, times in counted.items() if times > 1]
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return tuple(pairs)


def seconds(value: Any) -> float:
    """Return the seconds of a duration.

    >>> seconds("15m")
    900.0
    """
    match = DURATION.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) * SECONDS[match[2]] if match else 0.0
    if number == 0:
        raise ValueError(f"must be a duration like 30s, 15m, 24h or 7d, not {show(value)}")
    if number > LONGEST:
        raise ValueError(f"must be at most a hundred years, not {show(value)}")
    return number


def days(value: Any) -> int:
    """Return the days of a duration in whole days.

    >>> days("90d")
    90
    """
    is_in_days = isinstance(value, str) and value.endswith("d") and DURATION.fullmatch(value)
    if not is_in_days or seconds(value) % SECONDS["d"]:
        raise ValueError(f"must be a number of whole days like 90d, not {show(value)}")
    return int(seconds(value) // SECONDS["d"])


def timezone(value: Any) -> str:
    """Return the name of a time zone."""
    name = text(value)
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise ValueError(f"must be a time zone like Europe/Berlin, not {show(value)}") from error
    return name


def lookback(value: Any) -> str | int | float:
    """Return the lookback of a watermark: a duration as written, or a number.

    >>> lookback("3d"), lookback(1000)
    ('3d', 1000)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return value
    try:
        seconds(value)
    except ValueError:
        raise ValueError(f"must be a duration like 2h or 3d, or a number above 0, not {show(value)}") from None
    return str(value)


def setting(value: Any) -> str:
    """Return the text of a setting, as Java's libraries read it.

    >>> setting(True), setting(3), setting("x")
    ('true', '3', 'x')
    """
    if not isinstance(value, str | bool | int | float):
        raise ValueError(f"must be a text, a number or a boolean, not {show(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def show(value: Any) -> str:
    """Return a value for a message: short, and in the words of YAML."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return shorten_text(redacted(repr(value)), 60)


def shorten_text(text: str, most: int) -> str:
    """Return ``text`` shortened to at most ``most`` characters.

    >>> shorten_text("a long text", 8), shorten_text("a text", 8)
    ('a lon...', 'a text')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
