"""A group's exit becomes a new version of its table: what came is written first, then what stays of the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from rivet_dagster.compiler.plan import CompiledJoint, FusedGroup
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.execution.batch import fitted, incoming
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.phases import WRITE, PhaseClock
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.touching import touched
from rivet_dagster.execution.writing import Fit, as_it_is, write_joint
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import EVERYTHING, REPLACED, Record, Relation, Staged, Statistics
from rivet_dagster.sql.write_strategies.alignment import projection
from rivet_dagster.sql.write_strategies.relations import INCOMING, REST, Columns, distinct_values
from rivet_dagster.sql.write_strategies.survivors import survivors

_APART = frozenset({"merge", "scd2", "incremental_append"})
"""Modes whose incoming rows are not the batch as it came: it is stored by itself first, so that it is computed once."""

_BEFORE = "rivet_before"


@dataclass(frozen=True)
class ExitWrite:
    """One attempt to write a group's exit: ``staged`` is the version that it becomes.

    ``given`` are handles on joints of other groups; ``started`` is when the run of the group began, ``window`` what a
    run of partitions covers.
    """

    runtime: Runtime
    group: FusedGroup
    joint: CompiledJoint
    staged: Staged
    given: Mapping[str, MaterializedRef]
    clock: PhaseClock
    started: datetime
    window: Window | None = None


@dataclass(frozen=True)
class Written:
    """The rows that the joint computed, by themselves, and what they did to the table (None: they replaced all)."""

    batch: Relation
    statistics: Statistics
    record: Record | None = None


@contextmanager
def written(write: ExitWrite) -> Iterator[Written]:
    """Write the exit's new version; the batch can be read until the block ends.

    Raises RVT-405 where the version that it builds upon is gone, RVT-513 to 516 for a batch that does not fit, and what
    ``write_joint`` raises.
    """
    mode = write.joint.write_strategy.mode
    if mode == "replace":
        _compute(write, write.staged)
        yield _came(write)
    elif mode in _APART:
        with _apart(write) as batch:
            yield Written(batch.batch, batch.statistics, _transformed(write, batch.batch))
    else:
        yield _as_it_came(write)


def _as_it_came(write: ExitWrite) -> Written:
    """The files of the batch are files of the new version."""
    base = write.runtime.catalog(write.staged.catalog).base(write.staged)
    _compute(
        write,
        write.staged,
        lambda session, frame: fitted(write.joint, session, frame, base),
        write.joint.write_strategy.partition_columns,
    )
    came = _came(write)
    return Written(came.batch, came.statistics, _with_the_rest(write, came, base))


@contextmanager
def _apart(write: ExitWrite) -> Iterator[Written]:
    """The batch, stored by itself until the block ends."""
    catalog = write.runtime.catalog(write.runtime.assembly.workspace)
    place = catalog.stage(write.joint.name, {})
    try:
        with kept_alive(catalog, place):
            _compute(write, place)
            yield Written(*catalog.audit(place))
    finally:
        catalog.discard(place)


def _transformed(write: ExitWrite, batch: Relation) -> Record:
    """What the strategy makes of the stored batch is written."""
    base = write.runtime.catalog(write.staged.catalog).base(write.staged)
    with _session(write) as session:
        frame = incoming(write.joint, session, batch, base, write.started)
        session.write(frame, write.staged.target, write.runtime.progress_of(write.joint.name))
    return _with_the_rest(write, _came(write), base)


def _with_the_rest(write: ExitWrite, came: Written, base: Relation | None) -> Record:
    """Carry over, or write again, what stays of the version before; and tell what has changed."""
    if base is None:
        return Record(inserted=came.statistics.rows)
    strategy, catalog = write.joint.write_strategy, write.runtime.catalog(write.staged.catalog)
    with _session(write) as session:
        session.register(INCOMING, session.load(came.batch))
        part = touched(strategy, came.statistics, lambda c, most: session.rows(distinct_values(c, INCOMING, most)))
        columns, before = came.statistics.columns, session.columns(session.load(base))
        if part != REPLACED and tuple(columns) != tuple(before):
            part = EVERYTHING
        rest = catalog.carry(write.staged, part)
        if rest.relation is not None:
            _write_survivors(write, session, rest.relation, columns, before)
    total = catalog.audit(write.staged)[1].rows
    return _record(strategy.mode, came.statistics.rows, gone=rest.rows + came.statistics.rows - total)


def _write_survivors(
    write: ExitWrite, session: EngineSession, rest: Relation, columns: Columns, before: Columns
) -> None:
    strategy = write.joint.write_strategy
    session.register(_BEFORE, session.load(rest))
    session.register(REST, session.query(projection(columns, before, _BEFORE)))
    stay = session.query(survivors(columns, strategy.identity, equal_stay=strategy.mode == "merge"))
    session.write(stay, write.staged.target, write.runtime.progress_of(write.joint.name), strategy.partition_columns)


def _record(mode: str, came: int, gone: int) -> Record:
    if mode in ("merge", "scd2"):
        return Record(inserted=came - gone, updated=gone)
    return Record(inserted=came, deleted=gone)


def _compute(write: ExitWrite, staged: Staged, fit: Fit = as_it_is, split_by: Sequence[str] = ()) -> None:
    """Write what the joint gives in the window to ``staged``."""
    name = write.joint.name
    write_joint(
        write.runtime, write.group, name, staged, write.given, write.clock, write.started, fit, split_by, write.window
    )


def _came(write: ExitWrite) -> Written:
    """What has been written so far."""
    catalog = write.runtime.catalog(write.staged.catalog)
    return Written(*(catalog.written(write.staged) or catalog.audit(write.staged)))


@contextmanager
def _session(write: ExitWrite) -> Iterator[EngineSession]:
    """A session without the views of the joint's own query, its time counted as writing."""
    session = write.runtime.engine(write.joint.engine).session()
    try:
        with write.clock.phase(WRITE):
            yield session
    finally:
        session.close()
