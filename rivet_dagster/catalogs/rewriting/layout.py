"""The layout of written rows: files are split by partition, so that a later write of one shares the others."""

from __future__ import annotations

from rivet_dagster.catalogs.rewriting.plans import partition_columns
from rivet_dagster.catalogs.rewriting.window import WindowOfTable
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.sql.write_strategies.layout import PART, parted

_FITTED = "rivet_fitted"


def split_by(plan: WritePlan, window: Window | None) -> str | None:
    """Return the name of the column that ``laid_out`` adds; None if the rows are not split."""
    several = window is not None and len(window.keys) > 1
    return PART if several or partition_columns(plan) else None


def laid_out(plan: WritePlan, session: EngineSession, frame: Frame, window: Window | None) -> Frame:
    """Return ``frame``, with the column by which its files are to be split, if they are."""
    if split_by(plan, window) is None:
        return frame
    columns = partition_columns(plan)
    session.register(_FITTED, frame)
    if columns or window is None:
        return session.query(*parted(_FITTED, columns))
    return session.query(*WindowOfTable(window, session.columns(frame)).parted(_FITTED))
