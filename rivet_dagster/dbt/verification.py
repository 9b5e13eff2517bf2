"""The comparison of an imported project's tables with those that dbt has made, table by table, row by row.

dbt's tables are only read. Of a table that was stored here the rows are those of its version, of a view or a seed those
that its joint computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from rivet_dagster.compiler.diff import NONE, ColumnChange, changed_columns
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.dbt.relations import DbtMetastore, DbtRelation
from rivet_dagster.dbt.translation.strategy import IS_CURRENT, TranslatedSnapshot
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.difference.rows import (
    SAMPLES,
    TableDifference,
    candidate_keys,
    difference_of_rows,
)
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.showing import computed_frame
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.row_difference.columns import NEW
from rivet_dagster.sql.row_difference.query import current_rows, number_of_rows

EQUAL, DIFFERS, MISSING, FAILED, NOT_COMPARED = "equal", "differs", "missing", "failed", "not_compared"

CATALOG = "rivet_dbt"
"""The name of the catalog by which the engine reaches dbt's tables, which no catalog of an import has."""


@dataclass(frozen=True)
class TableVerdict:
    """The verdict on one table or view of dbt; ``joint`` is the one that was compared with it.

    ``reasons`` say why it was not compared, and what was not. There is a ``difference`` where rows were compared: dbt's
    are those before.
    """

    relation: DbtRelation
    verdict: str
    joint: str | None = None
    reasons: tuple[str, ...] = ()
    difference: TableDifference | None = None


def reach_metastore(plan: CompiledAssembly, metastore: DbtMetastore) -> CompiledAssembly:
    """Return the plan with a catalog by which its engines find dbt's tables."""
    catalog = CatalogSpec(CATALOG, "spark", metastore.options)
    engines = tuple(replace(engine, catalogs=(*engine.catalogs, CATALOG)) for engine in plan.engines)
    return replace(plan, catalogs=(*plan.catalogs, catalog), engines=engines)


def runnable_groups(plan: CompiledAssembly) -> tuple[str, ...]:
    """Return the groups of the plan that run without a partition being named, nor any group before them."""
    skipped: set[str] = set()
    for name in plan.execution_order:
        joints = [plan.joint(joint) for joint in plan.group(name).joints]
        if any(joint.partitions is not None or skipped.intersection(joint.upstream) for joint in joints):
            skipped.update(joint.name for joint in joints)
    return tuple(name for name in plan.execution_order if name not in skipped and plan.target(name) is not None)


def compare_with_dbt(
    runtime: Runtime,
    relations: Iterable[DbtRelation],
    metastore: DbtMetastore,
    unpublished: Mapping[str, str],
) -> tuple[TableVerdict, ...]:
    """Return the verdict on each of dbt's ``relations``.

    ``runtime`` has the catalog of ``reach_metastore``, and sees the environment in which the project has run.
    ``unpublished`` are the groups that have published nothing there, with the reasons.
    """
    comparison = _Comparison(runtime, metastore, unpublished)
    verdicts = [comparison.verdict(relation) for relation in relations]
    differing = {verdict.joint for verdict in verdicts if verdict.verdict == DIFFERS and verdict.joint is not None}
    return tuple(_explain(verdict, runtime.assembly, differing) for verdict in verdicts)


class _Comparison:
    def __init__(self, runtime: Runtime, metastore: DbtMetastore, unpublished: Mapping[str, str]) -> None:
        self._runtime, self._metastore, self._unpublished = runtime, metastore, unpublished
        self._plan = runtime.assembly
        self._joints = frozenset(joint.name for joint in self._plan.joints)
        self._runnable = frozenset(runnable_groups(self._plan))

    def verdict(self, relation: DbtRelation) -> TableVerdict:
        joint = self._joint_of(relation)
        if relation.reason is not None or joint is None:
            return TableVerdict(relation, NOT_COMPARED, joint, (relation.reason or "no joint has its rows",))
        group = self._plan.joint(joint).group
        is_stored = self._plan.target(joint) is not None
        if is_stored and joint not in self._runnable:
            return TableVerdict(relation, NOT_COMPARED, joint, ("a run needs a partition of it, or of what it reads",))
        if is_stored and group in self._unpublished:
            return TableVerdict(relation, FAILED, joint, (self._unpublished[group],))
        try:
            return self._compared(relation, joint)
        except RivetError as error:
            reasons = tuple(f"{each.message} ({each.code})" for each in error.diagnostics)
            return TableVerdict(relation, NOT_COMPARED, joint, reasons)

    def _joint_of(self, relation: DbtRelation) -> str | None:
        """Return the joint that has the rows of a relation: of the two of a snapshot, the one that stores them."""
        known = [joint for joint in relation.joints if joint in self._joints]
        stored = [joint for joint in known if self._is_history(joint)]
        return next(iter(stored or known), None)

    def _is_history(self, joint: str) -> bool:
        target = self._plan.target(joint)
        return target is not None and isinstance(target.write, History)

    def _compared(self, relation: DbtRelation, joint: str) -> TableVerdict:
        with ExitStack() as sessions:
            session, new = self._rows_of(joint, sessions)
            catalog = self._metastore.catalog or session.own_catalog
            try:
                old = session.load(CatalogTable((catalog, relation.schema, relation.table)))
            except RivetError as error:
                if not _is_missing(error):
                    raise
                return TableVerdict(relation, MISSING, joint, (f"there is no {relation}",))
            reasons: tuple[str, ...] = ()
            if relation.history is not None:
                old, new, reasons = _current(session, old, new, relation.history)
            difference = self._difference(session, joint, old, new)
        is_equal = difference.rows.empty and not difference.schema
        unlike = [column for column, count in difference.rows.columns.items() if count is None]
        reasons += (f"Spark cannot compare {', '.join(unlike)}",) if unlike else ()
        return TableVerdict(relation, EQUAL if is_equal else DIFFERS, joint, reasons, difference)

    def _rows_of(self, joint: str, sessions: ExitStack) -> tuple[EngineSession, Frame]:
        target = self._plan.target(joint)
        version = self._runtime.version_read(joint) if target is not None else None
        if target is None or version is None:
            return computed_frame(self._runtime, sessions, joint)
        session = sessions.enter_context(self._runtime.engine(self._plan.joint(joint).engine).session())
        return session, session.load(self._runtime.target_catalog(target.catalog).read(version))

    def _difference(self, session: EngineSession, name: str, old: Frame, new: Frame) -> TableDifference:
        joint = self._plan.joint(name)
        samples = SAMPLES if self._plan.shows_row_values(joint.group) else 0
        keys = candidate_keys(joint, self._plan.target(name))
        rows = difference_of_rows(session, old, new, keys, samples)
        with session.views():
            session.register(NEW, new)
            total: int = session.rows(number_of_rows())[0]["total"]
        changes = changed_columns(self._plan, name, session.columns(old), session.columns(new))
        schema = tuple(ColumnChange(each.column, each.change, each.before, each.after) for each in changes)
        before = total - rows.added + rows.removed
        return TableDifference(name, NONE, schema, rows, (), rows_before=before, rows_after=total)


_OLD_VERSIONS, _NEW_VERSIONS = "rivet_dbt_versions", "rivet_own_versions"


def _current(
    session: EngineSession, old: Frame, new: Frame, history: TranslatedSnapshot
) -> tuple[Frame, Frame, tuple[str, ...]]:
    """Return the current versions of dbt's snapshot and of the history here, and what is said of the comparison.

    A first run has no earlier versions. The columns that dbt or the history alone has are left out, and so is the time
    from which a version is valid, unless the data say it.
    """
    valid_to: Any = history.write["valid_to"]
    left_out = {valid_to, IS_CURRENT, *history.only_dbts}
    if history.updated_at is None:
        left_out.add(history.valid_from)
    frames = []
    for name, frame in ((_OLD_VERSIONS, old), (_NEW_VERSIONS, new)):
        names = _without((column for column, _ in session.columns(frame)), left_out)
        session.register(name, frame)
        frames.append(session.query(current_rows(name, names, valid_to)))
    when = f", and without {history.valid_from}" if history.updated_at is None else ""
    return *frames, (f"the current versions are compared ({valid_to} is NULL){when}",)


def _without(names: Iterable[str], left_out: Collection[str]) -> list[str]:
    lower = {name.lower() for name in left_out}
    return [name for name in names if name.lower() not in lower]


def _explain(verdict: TableVerdict, plan: CompiledAssembly, differing: Collection[str]) -> TableVerdict:
    """Return the verdict with what it reads that differs, too."""
    if verdict.verdict != DIFFERS or verdict.joint is None:
        return verdict
    before = list(_differing_before(plan, verdict.joint, differing))
    if not before:
        return verdict
    return replace(verdict, reasons=(*verdict.reasons, f"what it is computed from differs, too: {', '.join(before)}"))


def _differing_before(plan: CompiledAssembly, joint: str, differing: Collection[str]) -> Iterator[str]:
    """Yield the nearest joints before a joint that differ: with none that differs between them and the joint."""
    visited, waiting = set(), [*plan.joint(joint).upstream]
    while waiting:
        name = waiting.pop(0)
        if name in visited:
            continue
        visited.add(name)
        if name in differing:
            yield name
        else:
            waiting += plan.joint(name).upstream


_NOT_THERE = ("[TABLE_OR_VIEW_NOT_FOUND]", "[SCHEMA_NOT_FOUND]")


def _is_missing(error: RivetError) -> bool:
    return any(word in str(error) for word in _NOT_THERE)
