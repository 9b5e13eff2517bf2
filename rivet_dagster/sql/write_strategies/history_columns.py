"""The columns of a table with a history, by role, and the expressions that the queries of scd2 share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.trees import TARGET, plain_column

VERSION_COLUMNS = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
"""The fields of a write plan that name the columns that a history adds to the batch's, with their types."""


@dataclass(frozen=True)
class HistoryColumns:
    """The names of the columns, in the table's spelling, and the other options of the strategy."""

    columns: tuple[str, ...]
    values: tuple[str, ...]
    """The columns of the batch."""
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
        """The columns that a row may overwrite in the current version without adding a new version."""
        return without(self.values, (*self.keys, *self.tracked, self.effective_at))


def history_of(columns: Sequence[str], plan: History) -> HistoryColumns:
    """Return the history of a table or batch with ``columns``, as the write plan describes it.

    >>> columns = ["ID", "net", "From", "valid_to", "is_current"]
    >>> history = history_of(columns, History(keys=("id",), valid_from="from"))
    >>> history.keys, history.tracked, history.valid_from
    (('ID',), ('net',), 'From')
    """
    spelled = {name.lower(): name for name in columns}

    def given(*names: str) -> tuple[str, ...]:
        return tuple(spelled.get(name.lower(), name) for name in names)

    added = given(plan.valid_from, plan.valid_to, plan.is_current)
    values = without(columns, added)
    keys = given(*plan.keys)
    effective_at = given(plan.effective_at)[0] if plan.effective_at is not None else None
    return HistoryColumns(
        columns=tuple(columns),
        values=values,
        keys=keys,
        tracked=without(values, (*keys, effective_at)) if plan.tracked is None else given(*plan.tracked),
        effective_at=effective_at,
        order_by=given(*plan.order_by),
        valid_from=added[0],
        valid_to=added[1],
        is_current=added[2],
        close_missing=plan.close_missing,
    )


def without(names: Iterable[str], others: Iterable[str | None]) -> tuple[str, ...]:
    """Return ``names`` in their order, without ``others``."""
    left_out = set(others)
    return tuple(name for name in names if name not in left_out)


TIMESTAMP = exp.DType.TIMESTAMPTZ
"""The TIMESTAMP of Spark."""


def has_open_end(names: HistoryColumns) -> exp.Expr:
    """Return the condition that a version of the target has no end."""
    return exp.Is(this=plain_column(names.valid_to, TARGET), expression=exp.Null())


def effective_time(names: HistoryColumns, *within: str) -> exp.Expr:
    """Return the time at which a row of the batch takes effect, with the batch's name if that is given."""
    return exp.cast(plain_column(names.effective_at, *within), TIMESTAMP) if names.effective_at else run_started_at()


def run_started_at() -> exp.Expr:
    """Return the parameter for the time at which the run began."""
    return exp.Placeholder(this="run_started_at")


def as_keys(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Return the keys under names by position, which no column of the batch is confused with."""
    return [named(key, f"key_{position}") for position, key in enumerate(keys)]


def keys_of(names: HistoryColumns, *within: str) -> list[exp.Expr]:
    """Return the columns that ``as_keys`` named, with a relation's name if that is given."""
    return [plain_column(f"key_{position}", *within) for position in range(len(names.keys))]


def identity_of(names: HistoryColumns) -> list[exp.Expr]:
    """Return what identifies a row of the batch: its keys and, if it has one, its effective time."""
    keys: list[exp.Expr] = [plain_column(key) for key in names.keys]
    return keys if names.effective_at is None else [*keys, named(effective_time(names), names.effective_at)]
