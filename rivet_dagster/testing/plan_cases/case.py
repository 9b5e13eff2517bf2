"""The dataclasses of a case, and the columns and rows that many cases share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime

from rivet_dagster.model.write_plan import ReplaceAll, WritePlan

Rows = Sequence[tuple[object, ...]]

COLUMNS = "id BIGINT, day STRING, n BIGINT"
BEFORE: Rows = [(1, "a", 1), (2, "b", 2), (None, "b", 3)]

EARLIER = datetime(2024, 1, 1, tzinfo=UTC)
STARTED = datetime(2024, 1, 2, tzinfo=UTC)
"""The start of the run that writes the batch."""


@dataclass(frozen=True)
class PlanCase:
    """A batch that is written to a table; ``columns`` are the names and types of the table's columns, as DDL.

    ``before`` are the table's rows, written by ``written_by``, or None if there is no table. ``batch_columns`` are the
    columns of the batch and ``columns_after`` those of the table after the write; both default to ``columns``.
    ``counts`` are the numbers of rows inserted, updated and deleted.
    """

    name: str
    plan: WritePlan
    _: KW_ONLY
    before: Rows | None
    batch: Rows
    after: Rows
    counts: tuple[int, int, int]
    columns: str = COLUMNS
    batch_columns: str | None = None
    columns_after: str | None = None
    written_by: WritePlan = ReplaceAll()


@dataclass(frozen=True)
class RefusalCase:
    """A batch whose write fails with the error ``code`` and leaves the table unchanged.

    The error's message contains every text of ``named``, and none of ``unnamed``.
    """

    name: str
    plan: WritePlan
    _: KW_ONLY
    before: Rows | None
    batch: Rows
    code: str
    named: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    columns: str = COLUMNS
    batch_columns: str | None = None


def fields(columns: str) -> list[tuple[str, str]]:
    """Return the names and types of columns given as DDL.

    >>> fields("id BIGINT, net DECIMAL(5,2)")
    [('id', 'BIGINT'), ('net', 'DECIMAL(5,2)')]
    """
    pairs = (column.split(" ") for column in columns.split(", "))
    return [(name, kind) for name, kind in pairs]
