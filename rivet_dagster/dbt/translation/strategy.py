"""The write strategy of a model, from its materialization and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import Config
from rivet_dagster.errors import nearest

VIEW, TABLE, INCREMENTAL, EPHEMERAL = "view", "table", "incremental", "ephemeral"
MATERIALIZATIONS = (VIEW, TABLE, INCREMENTAL, EPHEMERAL)

_SCHEMA_CHANGES = {"ignore": "ignore", "append_new_columns": "add", "sync_all_columns": "add", "fail": "fail"}
_DEFAULTS = {"spark": "append", "databricks": "merge", "snowflake": "merge", "bigquery": "merge"}
_NO_COUNTERPART = {
    "merge_update_columns": "a merge updates all columns",
    "merge_exclude_columns": "a merge updates all columns",
    "merge_with_schema_evolution": "say it with on_schema_change",
    "matched_condition": "a merge has no conditions",
    "not_matched_by_source_action": "a merge has no conditions",
}


_OF_ALL = frozenset(("config()", "materialized"))
_DECISIVE = {
    "model": _OF_ALL,
    INCREMENTAL: _OF_ALL | {"incremental_strategy", "unique_key", "partition_by", "on_schema_change", "full_refresh"},
    "snapshot": _OF_ALL | {"strategy", "unique_key", "updated_at", "check_cols", "hard_deletes"},
}


class LeftOutError(ValueError):
    """A model that has no counterpart; ``key`` is that of its configuration that says so."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Strategy:
    """How a model is stored: not at all, or as a table with a write strategy; ``notes`` are what differs from dbt."""

    is_stored: bool
    write: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        """The mode of the write strategy; ``replace`` where none is declared."""
        return str(self.write.get("mode", "replace"))

    @property
    def is_incremental(self) -> bool:
        """Whether a run preserves rows of earlier ones."""
        return self.is_stored and self.mode != "replace"


def strategy_of(config: Config, adapter: str) -> Strategy:
    """Return how a model of a configuration is stored. Raise LeftOutError.

    >>> strategy_of(Config({"materialized": "incremental", "incremental_strategy": "append"}), "spark").write
    {'mode': 'append', 'on_schema_change': 'ignore'}
    """
    materialized = str(config.get("materialized", VIEW))
    if materialized in (VIEW, EPHEMERAL):
        return Strategy(False)
    if materialized == TABLE:
        return Strategy(True)
    if materialized == INCREMENTAL and _is(config, "full_refresh", "true"):
        note = "full_refresh: true computes the whole table in each run, so it becomes replace with the full text"
        return Strategy(True, {}, (note,))
    if materialized != INCREMENTAL:
        hint = nearest(materialized, MATERIALIZATIONS)
        raise LeftOutError(f"the materialization '{materialized}' has no counterpart{hint}", "materialized")
    return _incremental(config, adapter)


def _incremental(config: Config, adapter: str) -> Strategy:
    keys, parted = texts(config.get("unique_key")), texts(config.get("partition_by"))
    named = config.get("incremental_strategy")
    strategy = str(named).replace("-", "_") if named is not None else _DEFAULTS.get(adapter, "append")
    notes: list[str] = []
    if _is(config, "full_refresh", "false"):
        notes.append("full_refresh: false is not used: `run --full-refresh` computes the whole table here, too")
    if named is None and keys:
        notes.append(f"incremental_strategy is not given, and is {strategy} on {adapter}")
    change = str(config.get("on_schema_change", "ignore"))
    if change not in _SCHEMA_CHANGES:
        raise LeftOutError(f"on_schema_change '{change}' has no counterpart", "on_schema_change")
    options: dict[str, Any] = {"on_schema_change": _SCHEMA_CHANGES[change]}
    if change == "sync_all_columns":
        notes.append(
            "on_schema_change: sync_all_columns becomes add: a column that is gone stays in the table, as NULL"
        )
    if strategy == "append":
        if keys:
            notes.append("unique_key is not used by append, here as in dbt")
        return Strategy(True, {"mode": "append", **options}, tuple(notes))
    if strategy == "insert_overwrite":
        if not parted:
            notes.append(
                "insert_overwrite without partition_by replaces the whole table, so it becomes replace: "
                "is_incremental() is false, and each run has the rows of the full query"
            )
            return Strategy(True, {}, tuple(notes))
        if len(parted) == 1:
            return Strategy(True, {"mode": "snapshot", "partition_column": parted[0], **options}, tuple(notes))
        return Strategy(True, {"mode": "delete_insert", "partition_by": parted, **options}, tuple(notes))
    if strategy in ("merge", "delete+insert"):
        for key, why in _NO_COUNTERPART.items():
            if config.get(key):
                raise LeftOutError(f"{key} has no counterpart: {why}", key)
        if not keys:
            notes.append(f"{strategy} without unique_key adds all rows, so it becomes append")
            return Strategy(True, {"mode": "append", **options}, tuple(notes))
        for key in ("incremental_predicates", "predicates"):
            if config.get(key):
                raise LeftOutError(
                    f"{key} has no counterpart: dbt matches only rows that meet it, so others of a key are added again",
                    key,
                )
        mode = "merge" if strategy == "merge" else "delete_insert"
        if mode == "merge":
            notes.append(
                "a key that is NULL equals itself in a merge, where dbt inserts such rows each time; several rows of "
                "one key are an error, in the first run too, unless write_strategy has an order_by"
            )
        return Strategy(True, {"mode": mode, "key_columns": keys, **options}, tuple(notes))
    raise LeftOutError(f"incremental_strategy '{strategy}' has no counterpart", "incremental_strategy")


def unknown_keys(config: Config, kind: str) -> list[str]:
    """Return the keys that are not known and decide how a model or snapshot is stored.

    >>> config = Config({"materialized": "table"}, {}, {"unique_key": "a reason"})
    >>> unknown_keys(config, "model"), unknown_keys(config, "snapshot")
    ([], ['unique_key'])
    """
    stored = "incremental" if kind == "model" and config.get("materialized") == INCREMENTAL else kind
    return [key for key in config.unknown if key in _DECISIVE[stored]]


def _is(config: Config, key: str, value: str) -> bool:
    return str(config.values.get(key)).lower() == value


def texts(value: Any) -> list[str]:
    """Return the texts of a list, or of one text, without spaces around.

    >>> texts("id"), texts(["a", "b "]), texts(None)
    (['id'], ['a', 'b'], [])
    """
    given = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [str(item).strip() for item in given]
