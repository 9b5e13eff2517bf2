"""Partitions of a joint's rows, and the window of partitions that one run covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

HOURLY, DAILY, WEEKLY, MONTHLY, STATIC = "hourly", "daily", "weekly", "monthly", "static"
TYPES = (DAILY, HOURLY, WEEKLY, MONTHLY, STATIC)

PARTITION_START, PARTITION_END, PARTITION_KEYS = "partition_start", "partition_end", "partition_keys"
PARTITION_PARAMETERS = (PARTITION_START, PARTITION_END, PARTITION_KEYS)
"""The parameters in users' SQL: the window's bounds as TIMESTAMPs, and its keys as ARRAY<STRING>."""

_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_DAYS = _TIMES | {"date", "string"}
_COLUMN_TYPES = {
    HOURLY: _TIMES,
    DAILY: _DAYS,
    WEEKLY: _DAYS,
    MONTHLY: _DAYS,
    STATIC: frozenset({"string", "tinyint", "smallint", "int", "bigint", "boolean", "date"}),
}
"""The Spark types that a partition column may have: a date or a text does not determine an hour."""

_OF_TIME = frozenset({"type", "column", "start", "end", "timezone"})
_OF_VALUES = frozenset({"type", "column", "values"})
_REFUSED = ("...", "\a", "\b", "\f", "\n", "\r", "\t", "\v", "\0")
"""The parts of a key that Dagster refuses."""


@dataclass(frozen=True)
class Partitions:
    """How a joint's rows are partitioned by the values of its ``column``.

    Time partitions begin at ``start``, in ISO 8601 in the time zone ``timezone``, and end before ``end`` (None: open);
    weeks begin on Sunday. Static partitions have one key for each value.
    """

    type: str
    column: str
    start: str | None = None
    end: str | None = None
    timezone: str = "UTC"
    values: tuple[str, ...] = ()

    @property
    def of_time(self) -> bool:
        """Whether each partition is a span of time."""
        return self.type != STATIC

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that a joint's SQL may use."""
        return PARTITION_PARAMETERS if self.of_time else (PARTITION_KEYS,)

    @property
    def keys(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """A value that is equal for two joints with the same keys, whichever columns they use."""
        return (self.type, self.start, self.end, self.timezone, self.values)

    def chosen_by(self, other: Partitions) -> bool:
        """Return whether a window of ``other`` determines a selection of these partitions.

        >>> day, hour = Partitions("daily", "day", "2024-01-01"), Partitions("hourly", "at", "2024-01-01")
        >>> day.chosen_by(hour), day.chosen_by(Partitions("static", "region", values=("eu",)))
        (True, False)
        """
        return (self.of_time and other.of_time) or self.keys == other.keys

    def type_in(self, columns: Iterable[tuple[str, str | None]]) -> str | None:
        """Return the type of the partition column among ``columns`` (name, type), None where it is not known.

        Raise ValueError where it is missing or has a type that does not determine the partition of a row.
        """
        types = {name.lower(): kind for name, kind in columns}
        if self.column.lower() not in types:
            raise ValueError(f"the partition column '{self.column}' is none of {', '.join(types)}")
        kind = types[self.column.lower()]
        if kind is not None and kind not in _COLUMN_TYPES[self.type]:
            raise ValueError(f"the partition column '{self.column}' is of type {kind}, which tells no {self.type} key")
        return kind

    def __str__(self) -> str:
        if not self.of_time:
            return f"static ({', '.join(self.values)})"
        return f"{self.type} from {self.start}{f' to {self.end}' if self.end else ''} {self.timezone}"


_LONGEST = 1_000
"""Characters of the text of a window's keys, which each version records, beyond which it is shortened."""


@dataclass(frozen=True)
class Window:
    """The ``keys`` of ``partitions`` that one run covers, in order.

    Time partitions are contiguous: ``bounds`` are the instants, in UTC, at which each begins, and the one at which the
    last ends. Static partitions have none. ``definition`` is a text that is the same for equal partitions definitions
    of Dagster.
    """

    partitions: Partitions
    keys: tuple[str, ...]
    bounds: tuple[datetime, ...] = ()
    definition: str = ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The values of the partition parameters in users' SQL."""
        values: dict[str, Any] = {PARTITION_KEYS: list(self.keys)}
        return values | ({PARTITION_START: self.bounds[0], PARTITION_END: self.bounds[-1]} if self.bounds else {})

    def __str__(self) -> str:
        """Return a text that is unique to these keys; of many static ones, by a hash, it has the first and the last.

        >>> str(Window(Partitions("daily", "day", "2024-01-01"), ("2024-01-03", "2024-01-04", "2024-01-05")))
        '2024-01-03...2024-01-05'
        >>> str(Window(Partitions("static", "shop"), tuple(f"shop {number}" for number in range(3000))))
        "['shop 0', ..., 'shop 2999'] (3000 keys, aa104f3562399019)"
        """
        if len(self.keys) > 1 and self.partitions.of_time:
            return f"{self.keys[0]}...{self.keys[-1]}"
        text = ", ".join(self.keys) if len(self.keys) == 1 else str(list(self.keys))
        if len(self.keys) == 1 or len(text) <= _LONGEST:
            return text
        hashed = sha256(text.encode()).hexdigest()[:16]
        return f"[{self.keys[0]!r}, ..., {self.keys[-1]!r}] ({len(self.keys)} keys, {hashed})"


def parse_partitions(value: Any) -> Partitions:
    """Parse partitions from a mapping. Raise ValueError.

    >>> parse_partitions({"type": "daily", "column": "day", "start": "2024-01-01", "timezone": "Europe/Berlin"})
    Partitions(type='daily', column='day', start='2024-01-01', end=None, timezone='Europe/Berlin', values=())
    """
    if isinstance(value, Partitions):
        return value
    options = convert.mapping(value)
    kind = options.get("type")
    if kind not in TYPES:
        raise ValueError(f"needs a `type`, one of {', '.join(TYPES)}, not {convert.show(kind)}")
    known, needed = (_OF_VALUES, ("column", "values")) if kind == STATIC else (_OF_TIME, ("column", "start"))
    converted: dict[str, Any] = {}
    for key, given in options.items():
        if key not in _CONVERTERS:
            raise convert.WrongKeyError(f"has no option `{key}`{nearest(key, known)}", key)
        if key not in known:
            raise convert.WrongKeyError(f"has no `{key}` where the type is {kind}", key)
        try:
            converted[key] = _CONVERTERS[key](given, kind)
        except ValueError as error:
            raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
    for key in needed:
        if key not in converted:
            raise ValueError(f"needs `{key}` where the type is {kind}")
    if "end" in converted and datetime.fromisoformat(converted["end"]) <= datetime.fromisoformat(converted["start"]):
        raise ValueError(f"ends on {converted['end']}, which is not after its start, {converted['start']}")
    return Partitions(**converted)


def _time(value: Any, kind: str) -> str:
    """Return the ISO text of a date, or of a whole hour where partitions are hourly."""
    text = value.isoformat() if isinstance(value, date) else value
    forms = (_iso_date, _iso_hour) if kind == HOURLY else (_iso_date,)
    for form in forms:
        try:
            return form(text)
        except (TypeError, ValueError):
            continue
    expected = "a date or a whole hour like 2024-01-31T05:00" if kind == HOURLY else "a date like 2024-01-31"
    raise ValueError(f"must be {expected}, not {convert.show(value)}")


def _iso_date(text: str) -> str:
    if len(text) != len("2024-01-31"):
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()


def _iso_hour(text: str) -> str:
    time = datetime.fromisoformat(text)
    if time.tzinfo is not None or (time.minute, time.second, time.microsecond) != (0, 0, 0):
        raise ValueError(text)
    return time.isoformat(timespec="minutes")


def _values(value: Any) -> tuple[str, ...]:
    values = convert.texts(value)
    if not values:
        raise ValueError("must hold at least one text")
    for text in values:
        if any(part in text for part in _REFUSED):
            raise ValueError(f"holds {text!r}, which Dagster refuses: no '...', no line breaks, tabs and the like")
    return values


_CONVERTERS: dict[str, Callable[[Any, str], Any]] = {
    "type": lambda value, kind: kind,
    "column": lambda value, kind: convert.text(value),
    "start": _time,
    "end": _time,
    "timezone": lambda value, kind: convert.timezone(value),
    "values": lambda value, kind: _values(value),
}
"""The converter of each option, called with its value and the type of the partitions."""
