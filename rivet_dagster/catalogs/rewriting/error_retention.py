"""The errors of the version that a write builds upon that still hold: errors follow the rows that they stand for."""

from __future__ import annotations

from rivet_dagster.catalogs.parquet_rows import partition_type
from rivet_dagster.catalogs.rewriting.window import WindowOfTable
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.write_plan import Append, AppendNewer, Refresh, ReplaceAll, WritePlan
from rivet_dagster.sql.write_strategies.alignment import projection
from rivet_dagster.sql.write_strategies.error_keys import (
    ERRORS,
    NEW_ERRORS,
    PLACED,
    by_key,
    key_columns,
    place_errors,
    unplaced_once,
)
from rivet_dagster.sql.write_strategies.trees import BATCH

_STORED = "rivet_stored_errors"


def loaded_errors(session: EngineSession, relation: Relation) -> Frame:
    """Return the rows of an error table with ERROR_COLUMNS; columns that an earlier release did not write are NULL."""
    frame = session.load(relation)
    columns, wanted = session.columns(frame), tuple(ERROR_TYPES.items())
    if columns == wanted:
        return frame
    with session.views():
        session.register(_STORED, frame)
        return session.query(projection(wanted, columns, _STORED))


def retained_errors(
    plan: WritePlan,
    session: EngineSession,
    base: Relation | None,
    new: Frame,
    batch: Relation,
    window: Window | None = None,
) -> Frame | None:
    """Return the errors of ``base`` that stay when ``plan`` writes ``batch`` and the errors ``new``; None if none do.

    ``base`` is the error table of the version that the write builds upon, None without one; ``window`` holds the
    partitions that the run covers. Their keys must be those of ``key_of``, of the columns ``key_columns``.

    - If the batch replaces everything, no error stays; if it replaces partitions, those of other partitions do.
    - If the batch is appended, all stay.
    - If it replaces rows by their keys, an error stays unless the key is that of a row of the batch or of a new error.
    - An error without a key stays until the same row has the same error again.
    - A full refresh of partitions retains errors by key: they do not say to which partition they belong.

    Raises RVT-322.
    """
    if base is None or (isinstance(plan, ReplaceAll | Refresh) and window is None):
        return None
    if isinstance(plan, Append | AppendNewer):
        return loaded_errors(session, base)
    with session.views():
        session.register(ERRORS, loaded_errors(session, base))
        if not session.rows(f"SELECT 1 AS one FROM {ERRORS} LIMIT 1"):
            return None  # the keys of the batch are not computed
        session.register(NEW_ERRORS, new)
        rows, keys = session.load(batch), key_columns(plan)
        if window is not None and not keys:
            column = window.partitions.column
            kind = partition_type(session.columns(rows), window)
            errors = session.query(place_errors(column, kind))
            session.register(PLACED, WindowOfTable(window, ((column, kind),)).outside(session, errors))
            return session.query(unplaced_once(column))
        session.register(BATCH, rows)
        return session.query(by_key(keys))
