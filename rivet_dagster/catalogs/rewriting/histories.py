"""Histories in files: closed versions that no row of a batch concerns are neither read nor written again.

The versions that a run adds or closes are written to two kinds of files: those of open versions, whose end is NULL, and
those of closed ones. So the statistics of a file show that it holds closed versions alone. These may only change for
late keys, which have a row from before their open version, or no open version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting.current_keys import keys_in_files
from rivet_dagster.catalogs.rewriting.incoming import BatchKeys, register_relations
from rivet_dagster.catalogs.rewriting.intervals import MOST_VALUES, NULL, Affected, Range, point_interval
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.storage import Base, ColumnStatistics, StoredRows
from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.write_strategies.alignment import PART, part_rows
from rivet_dagster.sql.write_strategies.history_keys import KNOWN, LATE, SEVERAL, late_keys, unusual_keys
from rivet_dagster.sql.write_strategies.scd2 import select_versions

LateKeys = tuple[Range, ...] | None
"""The late keys of a batch; None if versions of any key may change."""

Within = Callable[[EngineSession, Frame], Frame]
"""A function that selects rows of a table."""


@dataclass(frozen=True)
class NarrowedHistory:
    """The part of a ``base`` that a batch needs, its late keys, and what is known about all of its keys."""

    base: Base
    late: LateKeys
    keys: BatchKeys


def narrow_history(
    plan: History, version: RewritableVersion, base: Base, batch: StoredRows, context: WriteContext
) -> NarrowedHistory:
    """Return ``base`` with the open versions, and the closed ones of late keys, which are returned, too.

    The base stays whole, and any key counts as late, where no file has closed versions alone, or too many keys are
    late. Raises RVT-513, RVT-514.
    """
    read = version.narrow_base(Affected((plan.valid_to,), ((NULL,),)))
    started = context.started or datetime.now(UTC)
    keys = keys_in_files(plan, read, read is base, batch, started)
    if keys is not BatchKeys.ANY:
        return NarrowedHistory(read, None if read is base else (), keys)
    columns = register_relations(plan, version.session, batch, read, _all_rows)
    query = unusual_keys([name for name, _ in columns], plan, MOST_VALUES + 1)
    rows = version.session.rows(query, {"run_started_at": started})
    late = tuple(tuple(point_interval(row[key]) for key in plan.keys) for row in rows if row[LATE])
    if read is base or len(late) > MOST_VALUES:
        return NarrowedHistory(base, None, _batch_keys(rows, saw_all=read is base))
    if not late:
        return NarrowedHistory(read, late, _batch_keys(rows, saw_all=True))
    narrowed = version.narrow_base(_versions(plan, (None,) * len(plan.keys), late))
    return NarrowedHistory(narrowed, late, _batch_keys(rows, saw_all=narrowed.relation == read.relation))


def _batch_keys(rows: Sequence[Mapping[str, Any]], saw_all: bool) -> BatchKeys:
    """Return what the unusual keys of a batch show, which are ``rows``; ``saw_all`` versions of late ones, or not."""
    if len(rows) > MOST_VALUES or any(row[SEVERAL] for row in rows):
        return BatchKeys.ANY
    if not rows:
        return BatchKeys.CURRENT
    return BatchKeys.CURRENT_OR_NEW if saw_all and not any(row[KNOWN] for row in rows) else BatchKeys.DISTINCT


def _all_rows(session: EngineSession, frame: Frame) -> Frame:
    return frame


def has_late_keys(
    plan: History, session: EngineSession, base: Base, batch: StoredRows, context: WriteContext, find_open: Within
) -> bool:
    """Return whether the batch has a late key; ``find_open`` selects the open versions of a table.

    Raises RVT-513, RVT-514.
    """
    columns = register_relations(plan, session, batch, base, find_open)
    started = context.started or datetime.now(UTC)
    return bool(session.rows(late_keys([name for name, _ in columns], plan, 1), {"run_started_at": started}))


def affected_versions(plan: History, affected: Affected, late: LateKeys) -> Affected:
    """Return the versions among those ``affected``, a range of keys, that are open or of late keys.

    Each run leaves a file of the versions that it has closed: so small files are joined.
    """
    if not affected.ranges:
        return affected
    if late is not None:
        (range_,) = affected.ranges
        affected = _versions(plan, range_ or (None,) * len(plan.keys), late)
    return replace(affected, joins_small=True)


def _versions(plan: History, range_: Range, late: tuple[Range, ...]) -> Affected:
    """Return the open versions of keys in a range, and all of late keys."""
    return Affected((*plan.keys, plan.valid_to), ((*range_, NULL), *((*key, None) for key in late)))


_FITTED = "rivet_fitted"


def add_versions(plan: History, version: RewritableVersion, frame: Frame, context: WriteContext) -> None:
    """Add versions, open and closed ones in files of their own."""
    version.session.register(_FITTED, frame)
    version.add(version.session.query(*part_rows(_FITTED, [plan.is_current])), context, PART)


def separate_versions(plan: History, session: EngineSession, frame: Frame, remaining: Remaining) -> list[Frame]:
    """Return the open and the closed versions of ``frame``, which has those of ``remaining`` that stay.

    They are not separated where all are open or all closed, or where that is not known. Each is to be written by
    itself: to read the files twice costs less than to bring their rows into another order.
    """
    if remaining.statistics is None:
        return [frame]
    known = remaining.statistics.values.get(plan.valid_to.lower(), ColumnStatistics())
    if known.nulls is None or known.nulls in (0, remaining.statistics.rows):
        return [frame]
    columns = [name for name, _ in session.columns(frame)]
    session.register(_FITTED, frame)
    return [session.query(select_versions(columns, plan.valid_to, _FITTED, are_open)) for are_open in (True, False)]
