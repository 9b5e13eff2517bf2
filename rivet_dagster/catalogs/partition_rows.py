"""The number of rows of each partition of a run."""

from __future__ import annotations

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import Window
from rivet_dagster.sql.partition_counts import rows_by_key, rows_by_moment
from rivet_dagster.sql.write_strategies.relations import Columns

_ROWS = "rivet_partition_rows"


def rows_by_partition(session: EngineSession, frame: Frame, columns: Columns, window: Window) -> dict[str, int]:
    """Return how many rows of ``frame``, which has ``columns``, each partition of ``window`` has. Raises RVT-322."""
    kind = partition_type(columns, window)
    session.register(_ROWS, frame)
    counts = session.rows(*rows_by_moment(_ROWS, window.partitions, kind, window))
    return rows_by_key(counts, kind, window)


def partition_type(columns: Columns, window: Window) -> str:
    """Return the type of the column by which a table with ``columns`` is partitioned. Raises RVT-322."""
    try:
        kind = window.partitions.type_in(columns)
    except ValueError as error:
        raise RivetError("RVT-322", str(error)) from error
    assert kind is not None
    return kind
