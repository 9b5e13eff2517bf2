"""The columns of a table that holds a history, by what they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.sql.write_strategies.duplicates import order_of

VERSION_COLUMNS = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
"""The options that name the columns a history has beside the batch's, each with its type; also their default names."""


@dataclass(frozen=True)
class History:
    """The names of the columns, spelled as the table spells them, and what else the strategy says."""

    columns: tuple[str, ...]
    values: tuple[str, ...]
    """Those of the batch."""
    keys: tuple[str, ...]
    tracked: tuple[str, ...]
    effective_at: str | None
    order_by: tuple[str, ...]
    valid_from: str
    valid_to: str
    is_current: str
    close_missing: bool

    @property
    def untracked(self) -> tuple[str, ...]:
        """What a row that brings no new version may change in the current one."""
        return without(self.values, (*self.keys, *self.tracked, self.effective_at))


def history_of(columns: Sequence[str], options: Mapping[str, Any]) -> History:
    """The history with ``columns``, or of a batch with ``columns``, as the options of scd2 describe it.

    >>> columns = ["ID", "net", "From", "valid_to", "is_current"]
    >>> history = history_of(columns, {"key_columns": ("id",), "valid_from": "from"})
    >>> history.keys, history.tracked, history.valid_from
    (('ID',), ('net',), 'From')
    """
    spelled = {name.lower(): name for name in columns}

    def given(*names: str) -> tuple[str, ...]:
        return tuple(spelled.get(name.lower(), name) for name in names)

    own = given(*(options.get(option, option) for option in VERSION_COLUMNS))
    values = without(columns, own)
    keys = given(*options["key_columns"])
    effective_at = given(options["effective_at"])[0] if "effective_at" in options else None
    tracked = given(*options["track_columns"]) if "track_columns" in options else without(values, (*keys, effective_at))
    return History(
        columns=tuple(columns),
        values=values,
        keys=keys,
        tracked=tracked,
        effective_at=effective_at,
        order_by=given(*order_of(options)),
        valid_from=own[0],
        valid_to=own[1],
        is_current=own[2],
        close_missing=options.get("close_missing", False),
    )


def without(names: Iterable[str], others: Iterable[str | None]) -> tuple[str, ...]:
    """``names`` in their order, but for ``others``."""
    left_out = set(others)
    return tuple(name for name in names if name not in left_out)
