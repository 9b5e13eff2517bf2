"""How a sink's batch becomes the target's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

ALIASES = {"append_only": "append", "full_refresh": "replace", "incremental": "merge"}
MODES = ("append", "replace", "truncate_insert", "merge", "delete_insert", "snapshot", "incremental_append", "scd2")


@dataclass(frozen=True)
class WriteStrategy:
    """A mode by its own name (never an alias), what to do with an empty batch, and the mode's further options."""

    mode: str = "replace"
    on_empty: str = "write"
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_write_strategy(value: Any) -> WriteStrategy:
    """From a mode's name or a mapping with ``mode``; raises ValueError."""
    options = {"mode": value} if isinstance(value, str) else convert.mapping(value)
    mode = options.pop("mode", None)
    if mode is None:
        raise ValueError("needs `mode`")
    if isinstance(mode, str):
        mode = ALIASES.get(mode, mode)
    if mode not in MODES:
        raise ValueError(f"has no mode {convert.show(mode)}{nearest(str(mode), (*MODES, *ALIASES))}")
    try:
        on_empty = convert.one_of("write", "skip", "fail")(options.pop("on_empty", "write"))
    except ValueError as error:
        raise ValueError(f"has an `on_empty` that {error}") from None
    if mode == "replace" and options:
        raise ValueError(f"has no option {', '.join(sorted(options))} in mode replace; known: on_empty")
    return WriteStrategy(mode, on_empty, options)
