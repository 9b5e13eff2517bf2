"""The rewrite of a table: the incoming rows are written first, then the rows of the base that remain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting.histories import (
    LateKeys,
    add_versions,
    affected_versions,
    narrow_history,
    separate_versions,
)
from rivet_dagster.catalogs.rewriting.incoming import Transforming, incoming_rows, no_rows
from rivet_dagster.catalogs.rewriting.intervals import EVERYTHING, NOTHING, REPLACED, Affected, affected_rows
from rivet_dagster.catalogs.rewriting.key_range import key_range
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion, cast_columns, fit_columns
from rivet_dagster.catalogs.rewriting.window import WindowOfTable
from rivet_dagster.engines.contract import EngineSession, Frame, QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base, Record, StoredRows
from rivet_dagster.model.write_plan import History, Refresh, ReplaceAll, Upsert, WritePlan
from rivet_dagster.sql.write_strategies.alignment import PART, part_rows
from rivet_dagster.sql.write_strategies.merge import survivors
from rivet_dagster.sql.write_strategies.trees import INCOMING, REST, Columns, distinct_values

_BASE = "rivet_base"


@dataclass(frozen=True)
class Rewritten:
    """The batch, and all rows of the table after the write: the same object if the table has no other rows.

    ``record`` counts the rows that were inserted, updated and deleted, None if the batch replaced the table;
    ``query_plan`` is how the engine computed the batch. Raises RVT-407 if the counts of rows do not add up.
    """

    batch: StoredRows
    whole: StoredRows
    record: Record | None = None
    query_plan: QueryPlan | None = None

    def __post_init__(self) -> None:
        record = self.record
        if record is not None and min(record.inserted, record.updated, record.deleted) < 0:
            counts = f"{record.inserted} inserted, {record.updated} updated, {record.deleted} deleted"
            message = f"the counts of rows do not add up: {counts}, and {self.whole.statistics.rows} there now"
            raise RivetError("RVT-407", message, remediation="Run it again: something else has written there, too.")


class WrittenRows:
    """The rows of a transaction: those that its one write makes, or else all that its version ``has`` already."""

    def __init__(self, has: Callable[[], StoredRows]) -> None:
        self._has = has
        self._scratch = ExitStack()
        self._rewritten: Rewritten | None = None

    def write(self, rewriting: AbstractContextManager[Rewritten]) -> QueryPlan | None:
        """Enter ``rewriting``, which writes the rows, until ``close``; return how the engine computed them."""
        self._rewritten = self._scratch.enter_context(rewriting)
        return self._rewritten.query_plan

    @property
    def result(self) -> Rewritten:
        """The batch and all rows, the same object without a write."""
        if self._rewritten is None:
            whole = self._has()
            self._rewritten = Rewritten(whole, whole)
        return self._rewritten

    @property
    def record(self) -> Record | None:
        """The record of the write; None without one, and if it replaced all rows."""
        return self._rewritten.record if self._rewritten is not None else None

    def close(self) -> None:
        """Remove what only the batch needs; the rows are not read any more."""
        self._scratch.close()


@contextmanager
def rewritten(version: RewritableVersion, plan: WritePlan, frame: Frame, context: WriteContext) -> Iterator[Rewritten]:
    """Carry out ``plan`` on ``version`` with the rows of ``frame``; the batch can be read until the block ends.

    Raises what ``TableTransaction.write`` does.
    """
    refresh = isinstance(plan, Refresh)
    plan = plan.plan if isinstance(plan, Refresh) else plan
    write = _Write(version, plan, context, refresh)
    if context.window is None and plan.replaces_table:
        query_plan = _computed(version, frame, context)
        whole = version.audit()
        yield Rewritten(whole, whole, query_plan=query_plan)
    elif plan.transforms:
        with version.scratch() as scratch:
            query_plan = _computed(scratch, frame, context)
            yield replace(_transformed(write, plan, scratch.audit()), query_plan=query_plan)  # type: ignore[arg-type]
    else:
        yield _as_given(write, frame)


@dataclass(frozen=True)
class _Write:
    """A write of ``plan``; if it is a full ``refresh``, old rows do not count, be it all or those of the window."""

    version: RewritableVersion
    plan: WritePlan
    context: WriteContext
    refresh: bool

    @property
    def session(self) -> EngineSession:
        return self.version.session

    @property
    def base(self) -> Base | None:
        """The version whose rows and columns count; None without one."""
        return None if self.refresh and self.context.window is None else self.version.base

    @property
    def replaces(self) -> bool:
        """Whether no old row that the run may change stays."""
        return self.refresh or isinstance(self.plan, ReplaceAll)

    def window(self, columns: Columns) -> WindowOfTable | None:
        """Return the run's window, for rows with these ``columns``."""
        window = self.context.window
        return None if window is None else WindowOfTable(window, columns)

    @property
    def split_by(self) -> str | None:
        """The column by which files are to be split; None if they are not."""
        return split_by(self.plan, self.context.window)

    def laid_out(self, frame: Frame) -> Frame:
        """Return ``frame`` with that column, if any."""
        return laid_out(self.plan, self.session, frame, self.context.window)

    def add(self, frame: Frame) -> None:
        """Add rows to the version, split as the plan wants them."""
        self.version.add(self.laid_out(frame), self.context, self.split_by)


def _computed(
    version: RewritableVersion, frame: Frame, context: WriteContext, split_by: str | None = None
) -> QueryPlan:
    """Add the rows of the joint's own query, and return how the engine computed it."""
    frame = context.observe(frame)
    return compute_batch(version.session, frame, context, lambda: version.add(frame, context, split_by))


def compute_batch(session: EngineSession, frame: Frame, context: WriteContext, write: Callable[[], None]) -> QueryPlan:
    """Call ``write``, which writes the rows of the joint's own query, and return how the engine computed it.

    If the query plan cannot be obtained, the write succeeds all the same, and the error's text stands in for the plan.
    """
    explained = session.explain(frame)
    with context.computing():
        write()
    try:
        return explained()
    except RivetError as error:
        return QueryPlan(error.diagnostics[0].message)


def _as_given(write: _Write, frame: Frame) -> Rewritten:
    """Add the batch to the new version, then the remaining rows of the base."""
    base = write.base
    with write.session.views():
        frame = write.laid_out(fit_columns(write.plan, write.session, frame, base))
        query_plan = _computed(write.version, frame, write.context, write.split_by)
    with write.session.views():
        batch = count_by_partition(write.session, write.version.added(), write.context)
        return replace(_with_the_base(write, batch, batch, base), query_plan=query_plan)


def _transformed(write: _Write, plan: Transforming, batch: StoredRows) -> Rewritten:
    """Add the incoming rows that the plan derives from the stored batch, then the remaining rows of the base."""
    with write.session.views():
        batch = count_by_partition(write.session, batch, write.context)
        base = write.base
        window = write.window(batch.statistics.columns)
        within = no_rows if write.refresh else window.within if window is not None else _all_rows
        late: LateKeys = None
        if isinstance(plan, History) and base is not None and not write.replaces and window is None:
            history = narrow_history(plan, write.version, base, batch, write.context)
            base, late = history.base, history.late
            incoming = incoming_rows(plan, write.session, batch, base, write.context, within, history.keys)
            add_versions(plan, write.version, incoming, write.context)
        else:
            target = base
            if isinstance(plan, Upsert) and base is not None and not write.refresh:
                target = write.version.narrow_base(key_range(plan.keys, batch.statistics, base.columns))
            write.add(incoming_rows(plan, write.session, batch, target, write.context, within))
        return _with_the_base(write, batch, write.version.added(), base, late)


def count_by_partition(session: EngineSession, batch: StoredRows, context: WriteContext) -> StoredRows:
    """Return the batch with the row count of each partition. Raises RVT-512 for rows outside of the run's window."""
    if context.window is None:
        return batch
    window = WindowOfTable(context.window, batch.statistics.columns)
    frame = session.load(batch.relation)
    return replace(batch, partition_rows=window.counted(session, frame, batch.statistics, context.shows_values))


def _with_the_base(
    write: _Write, batch: StoredRows, added: StoredRows, base: Base | None, late: LateKeys = None
) -> Rewritten:
    """Share or write again the remaining rows of the base, and return all with the counts of changed rows."""
    rows = added.statistics.rows
    if base is None:
        record = None if write.refresh else Record(inserted=rows, bytes=added.statistics.bytes)
        return Rewritten(batch, _whole(write, batch), record)
    remaining = write.version.share(_affected(write, added, base, late))
    none_remain = write.replaces and write.context.window is None
    if remaining.relation is not None and not none_remain:
        for frame in _survivors(write, remaining, remaining.relation, added):
            write.add(frame)
    whole = _whole(write, batch)
    removed = remaining.rows + rows - whole.statistics.rows
    return Rewritten(batch, whole, _record(write, rows, removed, whole.statistics.bytes - remaining.bytes))


def _whole(write: _Write, batch: StoredRows) -> StoredRows:
    """Return all rows; if the run replaces its partitions, their row counts are those of the batch."""
    whole = write.version.audit()
    replaces = isinstance(write.plan, ReplaceAll)
    return replace(whole, partition_rows=batch.partition_rows) if replaces else whole


def _affected(write: _Write, added: StoredRows, base: Base, late: LateKeys) -> Affected:
    """Return the rows of the base that the added rows may change; all of them if the columns change."""

    def distinct(names: Sequence[str], most: int) -> list[dict[str, Any]]:
        write.session.register(INCOMING, write.session.load(added.relation))
        return write.session.rows(distinct_values(names, INCOMING, most))

    part = REPLACED if write.replaces else affected_rows(write.plan, added.statistics, distinct)
    if isinstance(write.plan, History) and not write.replaces:
        part = affected_versions(write.plan, part, late)
    window = write.window(added.statistics.columns)
    if window is not None and part != NOTHING:
        part = window.affected(wholly=part == REPLACED)
    return part if part == REPLACED or added.statistics.columns == base.columns else EVERYTHING


def _survivors(write: _Write, remaining: Remaining, relation: Relation, added: StoredRows) -> list[Frame]:
    """Return the ``remaining`` rows, of ``relation``, that stay: outside of the run's window, or replaced by no row.

    The rows of each frame are to be written to files of their own.
    """
    session, columns = write.session, added.statistics.columns
    window = write.window(columns)
    session.register(INCOMING, session.load(added.relation))
    frame = cast_columns(session, session.load(relation), columns, _BASE)
    session.register(REST, frame if window is None else window.within(session, frame))
    identity = write.plan.identity
    never_null = added.statistics.without_nulls(identity)
    equal_stay = isinstance(write.plan, Upsert)
    inside = session.query(survivors(columns, identity, equal_stay, never_null))
    if isinstance(write.plan, History) and window is None:
        return separate_versions(write.plan, session, inside, remaining)
    if window is None:
        return [inside]
    outside = window.outside(session, frame)
    return [outside if write.replaces else session.union_by_name([inside, outside])]


def _record(write: _Write, added: int, removed: int, written: int) -> Record:
    if isinstance(write.plan, Upsert | History) and not write.refresh:
        return Record(inserted=added - removed, updated=removed, bytes=written)
    return Record(inserted=added, deleted=removed, bytes=written)


def _all_rows(session: EngineSession, frame: Frame) -> Frame:
    return frame


_FITTED = "rivet_fitted"


def split_by(plan: WritePlan, window: Window | None) -> str | None:
    """Return the name of the column that ``laid_out`` adds; None if the rows are not split."""
    several = window is not None and len(window.keys) > 1
    return PART if several or plan.partition_columns else None


def laid_out(plan: WritePlan, session: EngineSession, frame: Frame, window: Window | None) -> Frame:
    """Return ``frame``, with the column by which its files are to be split, if they are."""
    if split_by(plan, window) is None:
        return frame
    columns = plan.partition_columns
    session.register(_FITTED, frame)
    if columns or window is None:
        return session.query(*part_rows(_FITTED, columns))
    return session.query(*WindowOfTable(window, session.columns(frame)).parted(_FITTED))
