"""The layout of a table as a joint's ``options`` declare it, read and judged at compile time.

Fields of partition specs and sort orders are written as in Spark's DDL: ``days(at)``, ``id DESC NULLS FIRST``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.step_options import STEP_OPTIONS

_NAMES = {
    "year": "year years",
    "month": "month months",
    "day": "day days date",
    "hour": "hour hours date_hour",
    "bucket": "bucket",
    "truncate": "truncate",
    "identity": "identity",
}
_TRANSFORMS = {name: transform for transform, names in _NAMES.items() for name in names.split()}
_TIMES = ("year", "month", "day", "hour")
_SIZED = {"bucket": "number of buckets", "truncate": "width"}

_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_COLUMN = rf"{_PART}(?:\s*\.\s*{_PART})*"
_EXPRESSION = rf"(?P<column>{_COLUMN})|(?P<transform>\w+)\s*\((?P<arguments>[^()]*|[^()]*`[^`]*`[^()]*)\)"
_FIELD = re.compile(rf"\s*(?:{_EXPRESSION})\s*")
_SORTED = re.compile(
    rf"\s*(?:{_EXPRESSION})(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*", re.IGNORECASE
)
_ARGUMENTS = re.compile(rf"\s*(?:(?P<first>-?\d+)\s*,\s*)?(?P<column>{_COLUMN})(?:\s*,\s*(?P<last>-?\d+))?\s*")


@dataclass(frozen=True)
class PartitionText:
    """A column, given by the path of its name, and its transform with the size of a bucket or truncate.

    ``transform`` is one of identity, year, month, day, hour, bucket and truncate.
    """

    column: tuple[str, ...]
    transform: str = "identity"
    size: int | None = None

    @property
    def kind(self) -> tuple[tuple[str, ...], str]:
        """The column and its kind of transform, which no two fields of a table can share."""
        return tuple(part.lower() for part in self.column), "time" if self.transform in _TIMES else self.transform

    def __str__(self) -> str:
        column = ".".join(self.column)
        if self.transform == "identity":
            return column
        return f"{self.transform}({'' if self.size is None else f'{self.size}, '}{column})"


@dataclass(frozen=True)
class SortText:
    """A field of a sort order."""

    field: PartitionText
    descending: bool = False
    nulls_last: bool = False


def partition_text(text: str) -> PartitionText:
    """Return a field of a partition spec from its text. Raises ValueError.

    >>> partition_text("bucket(4, place.`zip code`)")
    PartitionText(column=('place', 'zip code'), transform='bucket', size=4)
    """
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError("is no column like `day` and no transform like `days(at)`")
    return _expression(match)


def sort_text(text: str) -> SortText:
    """Return a field of a sort order from its text; NULLs are first if ascending, as in Spark. Raises ValueError."""
    match = _SORTED.fullmatch(text)
    if match is None:
        raise ValueError(
            "is no column like `day` and no transform like `days(at)`, with ASC or DESC, NULLS FIRST or LAST"
        )
    descending = (match["direction"] or "").upper() == "DESC"
    nulls_last = match["nulls"].upper() == "LAST" if match["nulls"] else descending
    return SortText(_expression(match), descending, nulls_last)


def _expression(match: re.Match[str]) -> PartitionText:
    if match["column"]:
        return PartitionText(_parts(match["column"]))
    transform = _TRANSFORMS.get(match["transform"].lower())
    if transform is None:
        raise ValueError(f"has an unknown transform '{match['transform']}'{nearest(match['transform'], _TRANSFORMS)}")
    arguments = _ARGUMENTS.fullmatch(match["arguments"])
    sizes = [size for size in (arguments["first"], arguments["last"]) if size] if arguments else []
    if arguments is None or len(sizes) != (transform in _SIZED):
        shape = f"{transform}(4, column)" if transform in _SIZED else f"{match['transform']}(column)"
        raise ValueError(f"must be written like {shape}")
    if sizes and not 1 <= int(sizes[0]) < 2**31:
        raise ValueError(f"has {sizes[0]} as its {_SIZED[transform]}, which must be from 1 to {2**31 - 1}")
    return PartitionText(_parts(arguments["column"]), transform, int(sizes[0]) if sizes else None)


def _parts(column: str) -> tuple[str, ...]:
    parts = re.findall(_PART, column)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)


LAYOUT_OPTIONS = ("partitioned_by", "sort_order", "properties")
FORMAT_VERSION = "format-version"

_RESERVED = frozenset(
    """
    uuid snapshot-count current-snapshot-id current-snapshot-summary current-snapshot-timestamp-ms current-schema
    default-partition-spec default-sort-order
    """.split()
)
"""Properties by which Iceberg shows the metadata of a table; they cannot be set."""


_FIELDS: Mapping[str, Callable[[str], PartitionText]] = {
    "partitioned_by": partition_text,
    "sort_order": lambda text: sort_text(text).field,
}


def wrong_layout(options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the errors of a joint's options; a value with an unexpanded ``${`` is not judged.

    >>> for wrong in wrong_layout({"partitioned_by": ["bucket(0, id)"], "sort_ordr": ["id"]}):
    ...     print(wrong.message)
    unknown option 'sort_ordr'; did you mean 'sort_order'?
    'bucket(0, id)' has 0 as its number of buckets, which must be from 1 to 2147483647
    """
    for key in options:
        if key not in LAYOUT_OPTIONS:
            hint = (
                nearest(key, (*LAYOUT_OPTIONS, *STEP_OPTIONS), listed=False) or f"; known: {', '.join(LAYOUT_OPTIONS)}"
            )
            yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}'{hint}")
    for key, parse in _FIELDS.items():
        yield from _wrong_fields(key, options, parse)
    yield from _wrong_properties(options.get("properties", {}))


def columns_named(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns of valid options, each behind its option; of a field of a struct, that of the struct.

    >>> list(columns_named({"partitioned_by": ["days(at)", "${DAY}"], "sort_order": ["place.city DESC"]}))
    [('partitioned_by', 'at'), ('sort_order', 'place')]
    """
    for key, parse in _FIELDS.items():
        value = options.get(key)
        for text in value if isinstance(value, list | tuple) else ():
            if not _is_unexpanded(text):
                yield key, parse(text).column[0]


def as_text(value: Any) -> str:
    """Return the value of a property as Iceberg stores it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong_fields(key: str, options: Mapping[str, Any], parse: Callable[[str], PartitionText]) -> Iterator[Wrong]:
    value = options.get(key)
    if value is None or _is_unexpanded(value):
        return
    if not isinstance(value, list | tuple):
        message = f"`{key}` must be a list of texts like `day` or `days(at)`, not {show(value)}"
        yield Wrong("RVT-204", f"options.{key}", message)
        return
    seen: dict[object, str] = {}
    for text in value:
        if _is_unexpanded(text):
            continue
        try:
            if not isinstance(text, str):
                raise ValueError("is no text")
            kind = parse(text).kind
        except ValueError as error:
            yield Wrong("RVT-204", f"options.{key}", f"{show(text)} {error}")
            continue
        if kind in seen:
            yield Wrong(
                "RVT-204", f"options.{key}", f"{show(text)} is of the same column and kind as {show(seen[kind])}"
            )
        seen[kind] = text


def _wrong_properties(value: Any) -> Iterator[Wrong]:
    if _is_unexpanded(value):
        return
    if not isinstance(value, Mapping):
        yield Wrong("RVT-204", "options.properties", f"`properties` must be a mapping, not {show(value)}")
        return
    for key, setting in value.items():
        option = f"options.properties.{key}"
        if _is_unexpanded(key):
            continue
        if not isinstance(key, str) or not re.fullmatch(r"[^\s,]+", key):
            yield Wrong("RVT-204", "options.properties", f"no property is called {show(key)}")
        elif key.lower().startswith("rivet."):
            yield Wrong("RVT-204", option, f"the property '{key}' is set by rivet_dagster itself")
        elif key in _RESERVED:
            yield Wrong("RVT-204", option, f"the property '{key}' is reserved by Iceberg and cannot be set")
        elif _is_unexpanded(setting):
            continue
        elif not isinstance(setting, str | int | float):
            yield Wrong("RVT-204", option, f"the property '{key}' must be a text, a number, true or false")
        elif key == FORMAT_VERSION and as_text(setting) != "2":
            message = f"`{FORMAT_VERSION}` must be 2, not {show(setting)}: tables of other versions cannot be published"
            yield Wrong("RVT-204", option, message)


def _is_unexpanded(value: Any) -> bool:
    return isinstance(value, str) and "${" in value
