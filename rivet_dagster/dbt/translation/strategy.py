"""The write strategy of a model, from its materialization and its configuration.

Snapshots are histories, of which readers also see dbt's own columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import Config
from rivet_dagster.errors import nearest

VIEW, TABLE, INCREMENTAL, EPHEMERAL = "view", "table", "incremental", "ephemeral"
MATERIALIZATIONS = (VIEW, TABLE, INCREMENTAL, EPHEMERAL)

_SCHEMA_CHANGES = {"ignore": "ignore", "append_new_columns": "add", "sync_all_columns": "add", "fail": "fail"}
_DEFAULTS = {
    "spark": "append",
    "databricks": "merge",
    "snowflake": "merge",
    "bigquery": "merge",
    "postgres": "delete+insert",
}
_NO_COUNTERPART = {
    "merge_update_columns": "a merge updates all columns",
    "merge_exclude_columns": "a merge updates all columns",
    "merge_with_schema_evolution": "say it with on_schema_change",
    "matched_condition": "a merge has no conditions",
    "not_matched_by_source_action": "a merge has no conditions",
}


_OVERWRITE = "truncate_insert"
_OF_ALL = frozenset(("config()", "materialized"))
_DECISIVE = {
    "model": _OF_ALL,
    INCREMENTAL: _OF_ALL
    | {"incremental_strategy", "unique_key", "partition_by", "on_schema_change", "full_refresh"}
    | {"event_time", "begin", "batch_size"},
    "snapshot": _OF_ALL | {"strategy", "unique_key", "updated_at", "check_cols", "hard_deletes"},
}


class LeftOutError(ValueError):
    """A model that has no counterpart; ``key`` is that of its configuration that says so."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Strategy:
    """How a model is stored: not at all, or as a table with a write strategy; ``notes`` are what differs from dbt.

    ``partitions`` are those of a model that dbt computes in batches.
    """

    is_stored: bool
    write: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    partitions: Mapping[str, str] | None = None

    @property
    def mode(self) -> str:
        """The mode of the write strategy; ``replace`` where none is declared."""
        return str(self.write.get("mode", "replace"))

    @property
    def is_incremental(self) -> bool:
        """Whether a run preserves rows of earlier ones."""
        return self.is_stored and self.mode not in ("replace", _OVERWRITE)

    @property
    def overwrites(self) -> bool:
        """Whether each run of dbt replaces all rows of the table, or of a batch, by those that its query gives."""
        return self.mode == _OVERWRITE or self.partitions is not None


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
        notes.append(f"on_schema_change '{change}' is not known, and is ignore, as in dbt")
        change = "ignore"
    options: dict[str, Any] = {"on_schema_change": _SCHEMA_CHANGES[change]}
    if change == "sync_all_columns":
        notes.append(
            "on_schema_change: sync_all_columns becomes add: a column that is gone stays in the table, as NULL, where "
            "dbt-spark ends with an error"
        )
    if strategy == "append":
        if keys:
            notes.append("unique_key is not used by append, here as in dbt")
        return Strategy(True, {"mode": "append", **options}, tuple(notes))
    if strategy == "insert_overwrite":
        if not parted:
            notes.append("insert_overwrite without partition_by replaces all rows, so it becomes truncate_insert")
            return Strategy(True, {"mode": _OVERWRITE, **options}, tuple(notes))
        if len(parted) == 1:
            return Strategy(True, {"mode": "snapshot", "partition_column": parted[0], **options}, tuple(notes))
        return Strategy(True, {"mode": "delete_insert", "partition_by": parted, **options}, tuple(notes))
    if strategy == "microbatch":
        return _in_batches(config, notes)
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


_BATCHES = {"hour": "hourly", "day": "daily", "month": "monthly"}


def _in_batches(config: Config, notes: Sequence[str]) -> Strategy:
    """Return the partitions that the batches of a model become. Raise LeftOutError."""
    column, begin, size = (str(config.get(key) or "") for key in ("event_time", "begin", "batch_size"))
    if not re.fullmatch(r"[A-Za-z_]\w*", column):
        raise LeftOutError(f"microbatch needs a column as event_time, not '{column}'", "event_time")
    if size not in _BATCHES:
        why = f"partitions are hourly, daily or monthly, not by {size or 'nothing'}"
        raise LeftOutError(f"its batch_size has no counterpart: {why}", "batch_size")
    started = re.match(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d))?", begin)
    if started is None:
        raise LeftOutError(f"microbatch needs a date as begin, not '{begin}'", "begin")
    start = started[1] if size != "hour" or started[2] is None else f"{started[1]}T{started[2]}:00"
    if size == "month":
        start = f"{start[:7]}-01"
    told = (
        f"a batch is a partition, of UTC and since {start}: `run --partition KEY` computes one, and `--partition-range "
        "A...B` several",
        "days that are dates begin in the time zone of the session: spark.sql.session.timeZone should be UTC",
        "lookback is not used: a schedule of the last partitions is declared in rivet.yaml",
    )
    return Strategy(True, {}, (*notes, *told), {"type": _BATCHES[size], "column": column, "start": start})


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


IS_CURRENT = "dbt_is_current"
_ONLY_DBTS = ("dbt_scd_id", "dbt_updated_at")
_COLUMNS = {"valid_from": "dbt_valid_from", "valid_to": "dbt_valid_to"}


@dataclass(frozen=True)
class TranslatedSnapshot:
    """The write strategy of a snapshot, and what differs from dbt's; ``only_dbts`` are columns that only dbt has."""

    write: Mapping[str, Any]
    notes: tuple[str, ...]
    keys: tuple[str, ...]
    updated_at: str | None
    valid_from: str
    only_dbts: tuple[str, str]


def history_of(config: Config) -> TranslatedSnapshot:
    """Return the history that a snapshot becomes. Raise LeftOutError."""
    keys = texts(config.get("unique_key"))
    strategy = str(config.get("strategy", "")).lower()
    updated_at = config.get("updated_at")
    if not keys:
        raise LeftOutError("the snapshot has no unique_key", "unique_key")
    wrong = next((key for key in (*keys, *texts(updated_at)) if not re.fullmatch(r"`?\w+`?", key)), None)
    if wrong is not None:
        raise LeftOutError(f"'{wrong}' is an expression: give the query a column of it first", "unique_key")
    columns = config.get("snapshot_meta_column_names") or {}
    if not isinstance(columns, Mapping):
        raise LeftOutError("snapshot_meta_column_names must be a mapping", "snapshot_meta_column_names")
    all_names = {theirs: str(columns.get(theirs) or theirs) for theirs in (*_COLUMNS.values(), *_ONLY_DBTS)}
    odd = next((name for name in all_names.values() if not re.fullmatch(r"[A-Za-z_]\w*", name)), None)
    if odd is not None:
        raise LeftOutError(f"'{odd}' in snapshot_meta_column_names is no name", "snapshot_meta_column_names")
    names = {ours: all_names[theirs] for ours, theirs in _COLUMNS.items()}
    scd_id, updated = (all_names[theirs] for theirs in _ONLY_DBTS)
    write: dict[str, Any] = {"mode": "scd2", "key_columns": [key.strip("`") for key in keys]}
    notes = [
        f"the table has {names['valid_from']}, {names['valid_to']} and {IS_CURRENT}, but no {scd_id} and no {updated}",
        "a key that is NULL equals itself, where dbt adds such rows each time",
    ]
    if strategy == "timestamp":
        if updated_at is None:
            raise LeftOutError("the strategy timestamp has no updated_at", "strategy")
        write |= {"effective_at": str(updated_at), "track_columns": [str(updated_at)]}
        notes.append(
            f"a row that differs while its {updated_at} is the same overwrites the version, and one with an earlier "
            f"{updated_at} is spliced into the history; dbt takes no notice of either"
        )
    elif strategy == "check":
        tracked = config.get("check_cols")
        if updated_at is not None:
            write["effective_at"] = str(updated_at)
        if isinstance(tracked, list) and tracked:
            write["track_columns"] = texts(tracked)
            notes.append("a change in a column that is not in check_cols overwrites the current version; dbt leaves it")
        elif str(tracked).lower() != "all":
            raise LeftOutError("the strategy check has no check_cols", "check_cols")
    else:
        raise LeftOutError(f"the strategy '{strategy}' has no counterpart", "strategy")
    if _closes_missing(config):
        write["close_missing"] = True
    if config.get("dbt_valid_to_current") is not None:
        raise LeftOutError(
            f"dbt_valid_to_current has no counterpart: {names['valid_to']} is NULL", "dbt_valid_to_current"
        )
    # Snapshots of dbt take new columns by themselves.
    write |= {**names, "is_current": IS_CURRENT, "on_schema_change": "add"}
    at = None if updated_at is None else str(updated_at)
    return TranslatedSnapshot(
        write, tuple(notes), tuple(write["key_columns"]), at, names["valid_from"], (scd_id, updated)
    )


def _closes_missing(config: Config) -> bool:
    """Return whether a row that is gone ends its version. Raise LeftOutError."""
    deletes, old = config.get("hard_deletes"), config.get("invalidate_hard_deletes")
    if deletes is not None and old is not None:
        raise LeftOutError("hard_deletes and invalidate_hard_deletes cannot both be given", "hard_deletes")
    if deletes == "new_record":
        raise LeftOutError(
            "hard_deletes: new_record has no counterpart: close_missing ends the versions", "hard_deletes"
        )
    if deletes not in (None, "ignore", "invalidate"):
        raise LeftOutError(f"hard_deletes '{deletes}' has no counterpart", "hard_deletes")
    return deletes == "invalidate" or bool(old)


def reads_dbts_columns(text: str, names: Sequence[str] = _ONLY_DBTS) -> bool:
    """Return whether a query names columns of a snapshot that only dbt has.

    >>> reads_dbts_columns("select DBT_UPDATED_AT from s"), reads_dbts_columns("select * from s")
    (True, False)
    """
    return re.search(rf"\b(?:{'|'.join(names)})\b", text, re.IGNORECASE) is not None


def with_dbts_columns(history: TranslatedSnapshot, stored: str) -> str:
    """Return the query of a joint that adds dbt's own columns to those of the stored history."""
    at = f"`{history.updated_at or history.valid_from}`"
    keys: Sequence[str] = [f"coalesce(cast(`{key}` as string), '')" for key in history.keys]
    joined = " || '|' || ".join([*keys, f"coalesce(cast({at} as string), '')"])
    scd_id, updated = history.only_dbts
    columns = f"`{history.valid_from}` AS {updated}, md5({joined}) AS {scd_id}"
    return f"SELECT *, {columns}\nFROM {{{{ ref('{stored}') }}}}\n"
