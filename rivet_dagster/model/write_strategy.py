"""How a sink's batch becomes the target's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

ALIASES = {"append_only": "append", "full_refresh": "replace", "incremental": "merge"}
SPELLINGS = {"unique_key": "key_columns"}
"""Options by another name."""

_SCHEMA = frozenset({"on_schema_change"})
_WATERMARK = frozenset({"watermark_column", "lookback"})

MODES: dict[str, tuple[tuple[tuple[str, ...], ...], frozenset[str]]] = {
    "append": ((), _SCHEMA | {"watermark_column"}),
    "replace": ((), frozenset()),
    "truncate_insert": ((), _SCHEMA),
    "merge": ((("key_columns",),), _SCHEMA | _WATERMARK | {"order_by"}),
    "delete_insert": ((("partition_by", "key_columns"),), _SCHEMA | _WATERMARK),
    "snapshot": ((("partition_column",),), _SCHEMA | _WATERMARK),
    "incremental_append": ((("watermark_column",),), _SCHEMA),
    "scd2": (
        (("key_columns",),),
        _SCHEMA
        | {"track_columns", "effective_at", "close_missing", "order_by", "watermark_column"}
        | {"valid_from", "valid_to", "is_current"},
    ),
}
"""Each mode with the options it needs, one of each group, and those that it can do without besides ``on_empty``."""


@dataclass(frozen=True)
class WriteStrategy:
    """A mode by its own name (never an alias), what to do with an empty batch, and the mode's further options."""

    mode: str = "replace"
    on_empty: str = "write"
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_write_strategy(value: Any) -> WriteStrategy:
    """From a mode's name or a mapping with ``mode``; raises ValueError.

    >>> parse_write_strategy({"mode": "incremental", "unique_key": "id"}).options
    {'key_columns': ('id',)}
    """
    options = {"mode": value} if isinstance(value, str) else convert.mapping(value)
    mode = options.pop("mode", None)
    if mode is None:
        raise ValueError("needs `mode`")
    mode = ALIASES.get(mode, mode) if isinstance(mode, str) else mode
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"has no mode {convert.show(mode)}{nearest(str(mode), (*MODES, *ALIASES))}")
    needed, optional = MODES[mode]
    known = sorted({"on_empty", *optional, *(name for group in needed for name in group)})
    found: dict[str, Any] = {}
    for key, given in options.items():
        name = SPELLINGS.get(key, key)
        if name not in known:
            raise ValueError(f"has no option `{key}` in mode {mode}{nearest(key, known)}")
        if name in found:
            raise ValueError(f"gives `{name}` twice, under both of its names")
        try:
            found[name] = _CONVERTERS[name](given)
        except ValueError as error:
            raise ValueError(f"has a wrong `{key}`: it {error}") from None
    for group in needed:
        if not set(group) & set(found):
            raise ValueError(f"needs `{'` or `'.join(group)}` in mode {mode}")
    if "lookback" in found and "watermark_column" not in found:
        raise ValueError("needs `watermark_column` where it has a `lookback`")
    return WriteStrategy(mode, found.pop("on_empty", "write"), found)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "on_empty": convert.one_of("write", "skip", "fail"),
    "on_schema_change": convert.one_of("fail", "add", "ignore"),
    "key_columns": convert.texts,
    "partition_by": convert.texts,
    "track_columns": convert.texts,
    "partition_column": convert.text,
    "watermark_column": convert.text,
    "order_by": convert.texts,
    "effective_at": convert.text,
    "valid_from": convert.text,
    "valid_to": convert.text,
    "is_current": convert.text,
    "close_missing": convert.boolean,
    "lookback": convert.text,
}
