"""Write plans: writes to a table as data, which the compiler creates and a catalog executes in a transaction.

The batch is the rows that the joint computed, the target the table's previous rows; keys are compared null-safe and
columns matched by name. ``schema_change`` is what to do with a column that only the batch or only the target has:
``fail``, ``add`` (its missing values are NULL) or ``ignore`` (the target's columns stay).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SchemaChange = str


class Write:
    """What each kind of write tells of itself."""

    __slots__ = ()

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The columns whose values in the batch select the rows of the target that it replaces; none without such."""
        return ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which incoming rows match the rows of the target that they replace; none without such.

        >>> History(keys=("id",)).identity, Upsert(keys=("id",)).identity
        (('id', 'valid_from'), ('id',))
        """
        return self.matched_by

    @property
    def compared_by(self) -> tuple[str, ...]:
        """The columns by which rows of the batch and of the target are compared at all."""
        return self.matched_by

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns: all rows with a value that the batch has are replaced; none for other writes.

        >>> DeleteInsert(columns=("id",)).partition_columns, ReplacePartitions(column="day").partition_columns
        ((), ('day',))
        """
        return ()

    @property
    def replaces_table(self) -> bool:
        """Whether all rows and the columns of the table are replaced."""
        return False

    @property
    def transforms(self) -> bool:
        """Whether incoming rows differ from the batch, which is then stored first, to be computed only once."""
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplaceAll(Write):
    """The batch replaces the target. With ``keeps_table`` the table's columns, properties and permissions stay."""

    mode: Literal["replace"] = "replace"
    keeps_table: bool = False
    schema_change: SchemaChange = "fail"

    @property
    def replaces_table(self) -> bool:
        """Whether the table does not stay."""
        return not self.keeps_table


@dataclass(frozen=True, kw_only=True, slots=True)
class Append(Write):
    """The batch is appended."""

    mode: Literal["append"] = "append"
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendNewer(Write):
    """The rows of the batch whose ``column`` is greater than its max in the target are appended."""

    mode: Literal["append_newer"] = "append_newer"
    column: str
    schema_change: SchemaChange = "fail"

    @property
    def compared_by(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def transforms(self) -> bool:
        """Yes: of the batch only some rows come, or come changed."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Upsert(Write):
    """A row of the batch replaces the target's row with the same ``keys``, or is inserted.

    Rows of the batch with the same key are deduplicated: the row with the greatest ``order_by`` is used.
    """

    mode: Literal["upsert"] = "upsert"
    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    schema_change: SchemaChange = "fail"

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.keys

    @property
    def transforms(self) -> bool:
        """Yes: of the batch only some rows come, or come changed."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacePartitions(Write):
    """The target's rows whose value of ``column`` occurs in the batch are deleted; the batch is inserted."""

    mode: Literal["replace_partitions"] = "replace_partitions"
    column: str
    schema_change: SchemaChange = "fail"

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteInsert(Write):
    """The target's rows whose combination of ``columns`` occurs in the batch are deleted; the batch is inserted.

    ``by_partition`` says that the columns partition the table: many rows share a combination.
    """

    mode: Literal["delete_insert"] = "delete_insert"
    columns: tuple[str, ...]
    by_partition: bool = False
    schema_change: SchemaChange = "fail"

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns, if they partition the table."""
        return self.columns if self.by_partition else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class History(Write):
    """The target holds the history of each key (slowly changing dimension, type 2), as half-open intervals of time.

    A change in the ``tracked`` columns makes a new version, None means all columns. ``effective_at`` is the column with
    the time from which a row is valid, None means the run's start. ``close_missing`` ends the versions of keys that are
    missing in the batch. ``valid_from``, ``valid_to`` and ``is_current`` are the names of the columns that the write
    adds.
    """

    mode: Literal["history"] = "history"
    keys: tuple[str, ...]
    tracked: tuple[str, ...] | None = None
    effective_at: str | None = None
    order_by: tuple[str, ...] = ()
    close_missing: bool = False
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"
    schema_change: SchemaChange = "fail"

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.keys

    @property
    def identity(self) -> tuple[str, ...]:
        """The keys, and the time from which a version is valid."""
        return (*self.keys, self.valid_from)

    @property
    def transforms(self) -> bool:
        """Yes: of the batch only some rows come, or come changed."""
        return True


Refreshed = AppendNewer | Upsert | ReplacePartitions | DeleteInsert | History
"""The plans whose first write does more than storing the batch: it decides between rows, or lays them out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refresh(Write):
    """The target becomes what ``plan`` makes of a table that does not exist: its old rows and columns do not count.

    In a run of partitions that is so for their rows; the other rows stay, and the columns are as ``plan`` has them.
    """

    mode: Literal["refresh"] = "refresh"
    plan: Refreshed

    @property
    def schema_change(self) -> SchemaChange:
        """That of ``plan``, for a run of partitions."""
        return self.plan.schema_change

    @property
    def matched_by(self) -> tuple[str, ...]:
        """Those of ``plan``."""
        return self.plan.matched_by

    @property
    def identity(self) -> tuple[str, ...]:
        """None: no row of the target stays."""
        return ()

    @property
    def compared_by(self) -> tuple[str, ...]:
        """None: no row of the target counts."""
        return ()


WritePlan = ReplaceAll | Append | AppendNewer | Upsert | ReplacePartitions | DeleteInsert | History | Refresh
"""The kinds of write, one for each mode, and the full refresh; a catalog declares which types it can execute."""


def refresh_plan(plan: WritePlan) -> WritePlan:
    """Return the plan by which a full refresh replaces the target, as the first write of ``plan`` would make it.

    >>> refresh_plan(Append(schema_change="add"))
    ReplaceAll(mode='replace', keeps_table=False, schema_change='add')
    >>> refresh_plan(Upsert(keys=("id",))) == Refresh(plan=Upsert(keys=("id",)))
    True
    """
    match plan:
        case Refresh():
            return plan
        case ReplaceAll() | Append():
            return ReplaceAll(schema_change=plan.schema_change)
        case _:
            return Refresh(plan=plan)
