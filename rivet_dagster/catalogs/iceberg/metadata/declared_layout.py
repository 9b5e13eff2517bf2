"""Problems of the layout of a table as a joint's ``options`` declare it, found at compile time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rivet_dagster.catalogs.iceberg.metadata.layout_texts import PartitionText, partition_text, sort_text
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.step_options import STEP_OPTIONS

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
        place = f"options.properties.{key}"
        if _is_unexpanded(key):
            continue
        if not isinstance(key, str) or not re.fullmatch(r"[^\s,]+", key):
            yield Wrong("RVT-204", "options.properties", f"no property is called {show(key)}")
        elif key.lower().startswith("rivet."):
            yield Wrong("RVT-204", place, f"the property '{key}' is set by rivet_dagster itself")
        elif key in _RESERVED:
            yield Wrong("RVT-204", place, f"the property '{key}' is reserved by Iceberg and cannot be set")
        elif _is_unexpanded(setting):
            continue
        elif not isinstance(setting, str | int | float):
            yield Wrong("RVT-204", place, f"the property '{key}' must be a text, a number, true or false")
        elif key == FORMAT_VERSION and as_text(setting) != "2":
            message = f"`{FORMAT_VERSION}` must be 2, not {show(setting)}: tables of other versions cannot be published"
            yield Wrong("RVT-204", place, message)


def _is_unexpanded(value: Any) -> bool:
    return isinstance(value, str) and "${" in value
