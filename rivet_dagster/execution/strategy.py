"""A group's exit becomes a new version of its table: what came is written first, then what stays of the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.batch import fitted, incoming
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.phases import WRITE
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.touching import touched
from rivet_dagster.execution.window_write import WindowWrite
from rivet_dagster.execution.writing import Fit, as_it_is, write_joint, write_rows
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import EVERYTHING, NOTHING, REPLACED, Base, Record, Staged, Statistics, Touched
from rivet_dagster.sql.write_strategies.alignment import projection
from rivet_dagster.sql.write_strategies.layout import PART, parted
from rivet_dagster.sql.write_strategies.relations import INCOMING, REST, Columns, distinct_values
from rivet_dagster.sql.write_strategies.survivors import survivors

_APART = frozenset({"merge", "scd2", "incremental_append"})
"""Modes whose incoming rows are not the batch as it came: it is stored by itself first, so that it is computed once."""

_BEFORE, _FITTED = "rivet_before", "rivet_fitted"


@dataclass(frozen=True)
class ExitWrite:
    """One attempt of a run to write its group's exit: ``staged`` is the version that it becomes."""

    run: ThisRun
    joint: ComputedJoint
    staged: Staged


@dataclass(frozen=True)
class Written:
    """The rows that the joint computed, by themselves, and what they did to the table (None: they replaced all).

    ``partition_rows`` are those of each partition that the run covers.
    """

    batch: Relation
    statistics: Statistics
    record: Record | None = None
    partition_rows: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def written(write: ExitWrite) -> Iterator[Written]:
    """Write the exit's new version; the batch can be read until the block ends.

    Raises RVT-405 where the version that it builds upon is gone, RVT-322 and RVT-512 to 516 for a batch that does not
    fit, and what ``write_joint`` raises.
    """
    mode = write.joint.write_strategy.mode
    if mode == "replace" and write.run.window is None:
        _compute(write, write.staged)
        yield _came(write)
    elif mode in _APART:
        with _apart(write) as place:
            batch = _counted(write, place)
            yield replace(batch, record=_transformed(write, batch))
    else:
        yield _as_it_came(write)


def _as_it_came(write: ExitWrite) -> Written:
    """The files of the batch are files of the new version."""
    base = _catalog(write).base(write.staged)

    def fit(session: EngineSession, frame: Frame) -> Frame:
        return _laid_out(write, session, fitted(write.joint, session, frame, base))

    _compute(write, write.staged, fit, _split_by(write))
    came = _counted(write, _came(write))
    return replace(came, record=_with_the_rest(write, came, base))


@contextmanager
def _apart(write: ExitWrite) -> Iterator[Written]:
    """The batch, stored by itself until the block ends."""
    catalog = write.run.runtime.catalog(write.run.runtime.assembly.workspace)
    place = catalog.stage(write.joint.name, {})
    try:
        with kept_alive(catalog, place):
            _compute(write, place)
            yield Written(*catalog.audit(place))
    finally:
        catalog.discard(place)


def _transformed(write: ExitWrite, batch: Written) -> Record:
    """What the strategy makes of the stored batch is written."""
    base = _catalog(write).base(write.staged)
    with _session(write) as session:
        window = _window(write, batch.statistics.columns)
        within = window.within if window is not None else as_it_is
        frame = incoming(write.joint, session, batch.batch, base, write.run.started, within)
        _write(write, session, frame)
    return _with_the_rest(write, _came(write), base)


def _with_the_rest(write: ExitWrite, came: Written, base: Base | None) -> Record:
    """Carry over, or write again, what stays of the version before; and tell what has changed."""
    if base is None:
        return Record(inserted=came.statistics.rows, bytes=came.statistics.bytes)
    rest = _catalog(write).carry(write.staged, _touched(write, came, base))
    if rest.relation is not None:
        with _session(write) as session:
            _write(write, session, _survivors(write, session, rest.relation, came, base))
    total = _catalog(write).audit(write.staged)[1]
    gone = rest.rows + came.statistics.rows - total.rows
    return _record(write.joint.write_strategy.mode, came.statistics.rows, gone, total.bytes - rest.bytes)


def _touched(write: ExitWrite, came: Written, base: Base) -> Touched:
    """What the rows that came may change of the version before; all of it where its columns change."""

    def distinct(names: Sequence[str], most: int) -> list[dict[str, Any]]:
        with _session(write) as session:
            session.register(INCOMING, session.load(came.batch))
            return session.rows(distinct_values(names, INCOMING, most))

    part = touched(write.joint.write_strategy, came.statistics, distinct)
    window = _window(write, came.statistics.columns)
    if window is not None and part != NOTHING:
        part = window.touched(wholly=part == REPLACED)
    return part if part == REPLACED or came.statistics.columns == base.columns else EVERYTHING


def _survivors(write: ExitWrite, session: EngineSession, rest: Relation, came: Written, base: Base) -> Frame:
    """Those rows of ``rest`` that stay: all outside of the run's window, and within it what nothing replaces."""
    strategy, columns = write.joint.write_strategy, came.statistics.columns
    window = _window(write, columns)
    session.register(INCOMING, session.load(came.batch))
    session.register(_BEFORE, session.load(rest))
    frame = session.query(projection(columns, base.columns, _BEFORE))
    session.register(REST, frame if window is None else window.within(session, frame))
    stay = session.query(survivors(columns, strategy.identity, equal_stay=strategy.mode == "merge"))
    if window is None:
        return stay
    others = window.outside(session, frame)
    return others if strategy.replaces_all else session.union_by_name([stay, others])


def _record(mode: str, came: int, gone: int, written: int) -> Record:
    if mode in ("merge", "scd2"):
        return Record(inserted=came - gone, updated=gone, bytes=written)
    return Record(inserted=came, deleted=gone, bytes=written)


def _compute(write: ExitWrite, staged: Staged, fit: Fit = as_it_is, split_by: str | None = None) -> None:
    """Write what the joint gives in the window to ``staged``."""
    write_joint(write.run, write.joint.name, staged, fit, split_by)


def _write(write: ExitWrite, session: EngineSession, frame: Frame) -> None:
    """Add rows to the new version."""
    frame = _laid_out(write, session, frame)
    write_rows(write.run.runtime, write.joint.name, session, frame, write.staged, _split_by(write))


def _split_by(write: ExitWrite) -> str | None:
    several = write.run.window is not None and len(write.run.window.keys) > 1
    return PART if several or write.joint.write_strategy.partition_columns else None


def _laid_out(write: ExitWrite, session: EngineSession, frame: Frame) -> Frame:
    """``frame`` with the column that it is split by, if any."""
    if _split_by(write) is None:
        return frame
    columns = write.joint.write_strategy.partition_columns
    window = None if columns else _window(write, session.columns(frame))
    session.register(_FITTED, frame)
    return session.query(*(parted(_FITTED, columns) if window is None else window.parted(_FITTED)))


def _window(write: ExitWrite, columns: Columns) -> WindowWrite | None:
    return None if write.run.window is None else WindowWrite(write.joint, write.run.window, columns)


def _counted(write: ExitWrite, came: Written) -> Written:
    """The same with the rows of each partition; raises RVT-512 where some lie in none that the run covers."""
    window = _window(write, came.statistics.columns)
    if window is None:
        return came
    with _session(write) as session:
        return replace(came, partition_rows=window.counted(session, session.load(came.batch), came.statistics))


def _came(write: ExitWrite) -> Written:
    """What has been written so far."""
    return Written(*(_catalog(write).written(write.staged) or _catalog(write).audit(write.staged)))


def _catalog(write: ExitWrite) -> Catalog:
    return write.run.runtime.catalog(write.staged.catalog)


@contextmanager
def _session(write: ExitWrite) -> Iterator[EngineSession]:
    """A session without the views of the joint's own query, its time counted as writing."""
    session = write.run.runtime.engine(write.joint.engine).session()
    try:
        with write.run.clock.phase(WRITE):
            yield session
    finally:
        session.close()
