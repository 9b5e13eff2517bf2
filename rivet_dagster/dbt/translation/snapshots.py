"""Snapshots as histories: the write strategy, and what readers see of dbt's own columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.dbt.declared import Config
from rivet_dagster.dbt.translation.strategy import LeftOutError, texts

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
    own = f"`{history.valid_from}` AS {updated}, md5({joined}) AS {scd_id}"
    return f"SELECT *, {own}\nFROM {{{{ ref('{stored}') }}}}\n"
