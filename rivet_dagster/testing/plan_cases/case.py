"""The form of a case."""

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
"""When the run begins that writes the batch."""


@dataclass(frozen=True)
class PlanCase:
    """A batch that is written to a table, of which ``columns`` are names and types as DDL.

    ``before`` is None where there is no table; the table has been written by ``written_by``. The batch has the columns
    ``batch_columns`` and the table in the end ``columns_after``, both ``columns`` where they are not given. ``counts``
    are rows inserted, updated and deleted.
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
class Refusal:
    """A batch that fails with the error ``code`` and leaves the table as it was.

    The error's message names all that is ``named``, and nothing of what is ``unnamed``.
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
    """Return names and types of columns that are written as DDL.

    >>> fields("id BIGINT, net DECIMAL(5,2)")
    [('id', 'BIGINT'), ('net', 'DECIMAL(5,2)')]
    """
    pairs = (column.split(" ") for column in columns.split(", "))
    return [(name, kind) for name, kind in pairs]
