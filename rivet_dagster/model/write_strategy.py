"""Write strategies: how a sink's batch changes the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

ALIASES = {"append_only": "append", "full_refresh": "replace", "incremental": "merge"}
SPELLINGS = {"unique_key": "key_columns"}
"""Alternative names of options."""

_SCHEMA = frozenset({"on_schema_change"})
_WATERMARK = frozenset({"watermark_column", "lookback"})

COLUMNS = (
    "key_columns",
    "partition_by",
    "partition_column",
    "watermark_column",
    "order_by",
    "track_columns",
    "effective_at",
)
"""The options whose values are columns of the batch."""

VALIDITY = ("valid_from", "valid_to", "is_current")
"""The options that name the columns that scd2 adds to those of the batch."""

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
"""Each mode with its required options, exactly one of each group, and its optional ones besides ``on_empty``."""

ALWAYS_WHOLE = frozenset({"replace", "truncate_insert"})
"""The modes in which every run replaces all of the target's rows."""


@dataclass(frozen=True)
class WriteStrategy:
    """A mode (never an alias), what to do with an empty batch, and the mode's further options.

    Lists among the options are converted to tuples.
    """

    mode: str = "replace"
    on_empty: str = "write"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of_tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in self.options.items()}
        object.__setattr__(self, "options", of_tuples)

    @property
    def replaces_all(self) -> bool:
        """Whether the batch replaces all rows of the table, or of the run's partitions."""
        return self.mode in ("replace", "truncate_insert")

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that identify a row of the target; empty in modes without keys."""
        return tuple(self.options.get("key_columns", ()))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns whose values in the batch select the rows to replace; empty in modes without partitions."""
        column = self.options.get("partition_column")
        return (column,) if column else tuple(self.options.get("partition_by", ()))

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns that deduplicate rows with the same key: the row with the greatest values is used."""
        watermark = self.options.get("watermark_column")
        return tuple(self.options.get("order_by", (watermark,) if watermark else ()))

    @property
    def watermark_column(self) -> str | None:
        """The watermark column: its max in the target is the watermark."""
        return self.options.get("watermark_column")

    @property
    def on_schema_change(self) -> str:
        """What to do with columns that only the batch or only the target has: fail, add or ignore."""
        return str(self.options.get("on_schema_change", "fail"))

    @property
    def validity(self) -> tuple[tuple[str, str], ...]:
        """The columns with the validity of versions that scd2 adds, as (option, column); empty in other modes."""
        if self.mode != "scd2":
            return ()
        return tuple((option, str(self.options.get(option, option))) for option in VALIDITY)

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns of the batch that the options name, as (option, column)."""
        named = []
        for option in COLUMNS if self.options else ():
            value = self.options.get(option, ())
            named += [(option, name) for name in ((value,) if isinstance(value, str) else value)]
        return tuple(named)


def parse_write_strategy(value: Any) -> WriteStrategy:
    """Parse a write strategy from a mode's name or a mapping with ``mode``. Raise ValueError.

    >>> parse_write_strategy({"mode": "incremental", "unique_key": "id"}).options
    {'key_columns': ('id',)}
    """
    options = {"mode": value} if isinstance(value, str) else convert.mapping(value)
    mode = options.pop("mode", None)
    if mode is None:
        raise ValueError("needs `mode`")
    mode = ALIASES.get(mode, mode) if isinstance(mode, str) else mode
    if not isinstance(mode, str) or mode not in MODES:
        message = f"has no mode {convert.show(mode)}{nearest(str(mode), (*MODES, *ALIASES))}"
        raise convert.WrongKeyError(message, "mode")
    needed, optional = MODES[mode]
    known = sorted({"on_empty", *optional, *(name for group in needed for name in group)})
    converted: dict[str, Any] = {}
    for key, given in options.items():
        name = SPELLINGS.get(key, key)
        if name not in known:
            raise convert.WrongKeyError(f"has no option `{key}` in mode {mode}{nearest(key, known)}", key)
        if name in converted:
            raise convert.WrongKeyError(f"gives `{name}` twice, under both of its names", key)
        try:
            converted[name] = _CONVERTERS[name](given)
        except ValueError as error:
            raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
    for group in needed:
        given_of_group = [name for name in group if name in converted]
        if not given_of_group:
            raise ValueError(f"needs `{'` or `'.join(group)}` in mode {mode}")
        if len(given_of_group) > 1:
            message = f"has both `{'` and `'.join(group)}`: mode {mode} goes by one of them"
            raise convert.WrongKeyError(message, given_of_group[1])
    if "lookback" in converted and "watermark_column" not in converted:
        raise convert.WrongKeyError("needs `watermark_column` where it has a `lookback`", "lookback")
    return WriteStrategy(mode, converted.pop("on_empty", "write"), converted)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "on_empty": convert.one_of("write", "skip", "fail"),
    "on_schema_change": convert.one_of("fail", "add", "ignore"),
    "key_columns": convert.column_names,
    "partition_by": convert.column_names,
    "track_columns": convert.column_names,
    "partition_column": convert.text,
    "watermark_column": convert.text,
    "order_by": convert.column_names,
    "effective_at": convert.text,
    "valid_from": convert.text,
    "valid_to": convert.text,
    "is_current": convert.text,
    "close_missing": convert.boolean,
    "lookback": convert.lookback,
}
