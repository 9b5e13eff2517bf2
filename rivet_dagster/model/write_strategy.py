"""Write strategies: how the batch of a published joint changes its table.

A mode is a class, which says all that the product knows of it: parser, schema, plan and texts are made of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rivet_dagster.errors import nearest
from rivet_dagster.model import convert
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)

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
    def plan(self) -> WritePlan:
        """The write plan that catalogs carry out.

        >>> WriteStrategy("merge", options={"key_columns": ("id",), "watermark_column": "at"}).plan
        Upsert(mode='upsert', keys=('id',), order_by=('at',), schema_change='fail')
        """
        return MODES[self.mode].plan(self)

    @property
    def replaces_all(self) -> bool:
        """Whether the batch replaces all rows of the table, or of the run's partitions."""
        return MODES[self.mode].replaces_all

    @property
    def keeps_history(self) -> bool:
        """Whether the table has the versions of each key over time."""
        return MODES[self.mode].keeps_history

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
        """The columns with the validity of versions that a history adds, as (option, column); empty in other modes."""
        if not self.keeps_history:
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


class WriteMode(ABC):
    """A mode of write strategies: its options, and the plan of a write. Each is listed in ``MODES``."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    required: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """The required options, exactly one of each group."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """The optional ones, besides ``on_empty``."""
    plan_type: ClassVar[type[WritePlan]]
    """The kind of its plans, which a catalog must be able to carry out."""
    replaces_all: ClassVar[bool] = False
    """Whether every run replaces all rows of the table, or of the run's partitions."""
    keeps_history: ClassVar[bool] = False
    """Whether the table has versions of each key, by columns that the write adds."""

    @abstractmethod
    def plan(self, strategy: WriteStrategy) -> WritePlan:
        """Return the plan of a write by ``strategy``, which is of this mode."""

    def makes(self, plan: WritePlan) -> bool:
        """Return whether ``plan`` is one of this mode's."""
        return isinstance(plan, self.plan_type)

    @property
    def options(self) -> frozenset[str]:
        """The options that a strategy of this mode may have, besides ``on_empty``."""
        return self.optional.union(*self.required)


class AppendMode(WriteMode):
    """The batch is added."""

    name = "append"
    aliases = ("append_only",)
    optional = _SCHEMA | {"watermark_column"}
    plan_type = Append

    def plan(self, strategy: WriteStrategy) -> Append:
        return Append(schema_change=strategy.on_schema_change)


class ReplaceMode(WriteMode):
    """The table becomes the batch."""

    name = "replace"
    aliases = ("full_refresh",)
    plan_type = ReplaceAll
    replaces_all = True

    def plan(self, strategy: WriteStrategy) -> ReplaceAll:
        return _REPLACE_ALL

    def makes(self, plan: WritePlan) -> bool:
        return isinstance(plan, Refresh) or (isinstance(plan, ReplaceAll) and not plan.keeps_table)


class TruncateInsertMode(WriteMode):
    """The table becomes the batch, and keeps its columns."""

    name = "truncate_insert"
    optional = _SCHEMA
    plan_type = ReplaceAll
    replaces_all = True

    def plan(self, strategy: WriteStrategy) -> ReplaceAll:
        return ReplaceAll(keeps_table=True, schema_change=strategy.on_schema_change)

    def makes(self, plan: WritePlan) -> bool:
        return isinstance(plan, ReplaceAll) and plan.keeps_table


class MergeMode(WriteMode):
    """Rows with a known key get the values of the batch, other rows are added."""

    name = "merge"
    aliases = ("incremental",)
    required = (("key_columns",),)
    optional = _SCHEMA | _WATERMARK | {"order_by"}
    plan_type = Upsert

    def plan(self, strategy: WriteStrategy) -> Upsert:
        change = strategy.on_schema_change
        return Upsert(keys=strategy.key_columns, order_by=strategy.order_by, schema_change=change)


class DeleteInsertMode(WriteMode):
    """Rows whose keys or partitions the batch has are replaced by it."""

    name = "delete_insert"
    required = (("partition_by", "key_columns"),)
    optional = _SCHEMA | _WATERMARK
    plan_type = DeleteInsert

    def plan(self, strategy: WriteStrategy) -> DeleteInsert:
        parts, change = strategy.partition_columns, strategy.on_schema_change
        return DeleteInsert(columns=parts or strategy.key_columns, by_partition=bool(parts), schema_change=change)


class SnapshotMode(WriteMode):
    """The partitions of one column that the batch has are replaced by it."""

    name = "snapshot"
    required = (("partition_column",),)
    optional = _SCHEMA | _WATERMARK
    plan_type = ReplacePartitions

    def plan(self, strategy: WriteStrategy) -> ReplacePartitions:
        column, change = strategy.options["partition_column"], strategy.on_schema_change
        return ReplacePartitions(column=column, schema_change=change)


class IncrementalAppendMode(WriteMode):
    """Rows of the batch above the table's watermark are added."""

    name = "incremental_append"
    required = (("watermark_column",),)
    optional = _SCHEMA
    plan_type = AppendNewer

    def plan(self, strategy: WriteStrategy) -> AppendNewer:
        column, change = strategy.options["watermark_column"], strategy.on_schema_change
        return AppendNewer(column=column, schema_change=change)


class Scd2Mode(WriteMode):
    """The table has a history of versions for each key."""

    name = "scd2"
    required = (("key_columns",),)
    optional = (
        _SCHEMA
        | {"track_columns", "effective_at", "close_missing", "order_by", "watermark_column"}
        | frozenset(VALIDITY)
    )
    plan_type = History
    keeps_history = True

    def plan(self, strategy: WriteStrategy) -> History:
        options, names = strategy.options, dict(strategy.validity)
        return History(
            keys=strategy.key_columns,
            tracked=options.get("track_columns"),
            effective_at=options.get("effective_at"),
            order_by=strategy.order_by,
            close_missing=options.get("close_missing", False),
            valid_from=names["valid_from"],
            valid_to=names["valid_to"],
            is_current=names["is_current"],
            schema_change=strategy.on_schema_change,
        )


_REPLACE_ALL = ReplaceAll()

MODES: dict[str, WriteMode] = {
    mode.name: mode
    for mode in (
        AppendMode(),
        ReplaceMode(),
        TruncateInsertMode(),
        MergeMode(),
        DeleteInsertMode(),
        SnapshotMode(),
        IncrementalAppendMode(),
        Scd2Mode(),
    )
}
"""The modes by name."""

ALIASES = {alias: mode.name for mode in MODES.values() for alias in mode.aliases}


def modes_of(plans: Collection[type[WritePlan]]) -> frozenset[str]:
    """Return the names of the modes whose plans are of these kinds.

    >>> sorted(modes_of({ReplaceAll, Append}))
    ['append', 'replace', 'truncate_insert']
    """
    return frozenset(name for name, mode in MODES.items() if mode.plan_type in plans)


def mode_of(plan: WritePlan) -> str:
    """Return the name of the mode that a write carries out; that of a full refresh is ``replace``.

    >>> mode_of(Upsert(keys=("id",)))
    'merge'
    """
    return next(name for name, mode in MODES.items() if mode.makes(plan))


def write_text(plan: WritePlan) -> str:
    """Return the mode, and the columns by which rows of the batch and of the target are compared.

    >>> write_text(Upsert(keys=("id", "day"))), write_text(ReplaceAll())
    ('merge by id, day', 'replace')
    """
    return f"{mode_of(plan)} by {', '.join(plan.compared_by)}" if plan.compared_by else mode_of(plan)


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
    known = sorted({"on_empty", *MODES[mode].options})
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
    for group in MODES[mode].required:
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
