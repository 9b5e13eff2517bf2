"""What a write does to a table, as data: the compiler makes it, a catalog carries it out in a transaction.

The words: the batch is what the joint computed, the target the table's rows before, keys are compared null-safe and
columns matched by name. ``schema_change`` says what becomes of a column that only the batch or only the target has:
``fail``, ``add`` (NULL where it lacks) or ``ignore`` (the target's columns stay).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SchemaChange = str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplaceAll:
    """The target becomes the batch. With ``keeps_table`` its columns, properties and permissions stay."""

    mode: Literal["replace"] = "replace"
    keeps_table: bool = False
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Append:
    """The batch is added."""

    mode: Literal["append"] = "append"
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendNewer:
    """Those rows of the batch are added whose ``column`` is greater than the target's greatest."""

    mode: Literal["append_newer"] = "append_newer"
    column: str
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upsert:
    """A row of the batch takes the place of the target's row of the same ``keys``, or is added.

    Of rows of one key in the batch the one with the greatest ``order_by`` counts.
    """

    mode: Literal["upsert"] = "upsert"
    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacePartitions:
    """The target's rows go whose ``column`` has a value that occurs in the batch; the batch is added."""

    mode: Literal["replace_partitions"] = "replace_partitions"
    column: str
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteInsert:
    """The target's rows go whose ``columns`` have a combination that occurs in the batch; the batch is added.

    ``by_partition`` says that the columns part the table: a combination stands for many rows, as in partitions.
    """

    mode: Literal["delete_insert"] = "delete_insert"
    columns: tuple[str, ...]
    by_partition: bool = False
    schema_change: SchemaChange = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The target holds the versions of each key (slowly changing dimension, type 2): half-open intervals of time.

    ``tracked`` are the columns whose change makes a new version, None all of them; ``effective_at`` names the column
    that says since when a row holds, None the run's start; ``close_missing`` ends the versions of keys that the batch
    lacks. The names of the columns that the write adds are ``valid_from``, ``valid_to`` and ``is_current``.
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


WritePlan = ReplaceAll | Append | AppendNewer | Upsert | ReplacePartitions | DeleteInsert | History
"""One of them a mode; a catalog says by type which it can carry out."""
