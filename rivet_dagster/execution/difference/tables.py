"""The difference of an environment from its base, table by table."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack

from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.environments.state import BuiltTable
from rivet_dagster.compiler.diff import ColumnChange, changed_columns, changed_logic
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.difference.rows import (
    SAMPLES,
    EnvironmentDifference,
    RowDifference,
    TableDifference,
    VerdictChange,
    candidate_keys,
    difference_of_rows,
    rows_of_new_table,
)
from rivet_dagster.execution.quality.judging import check_published
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.execution.row_error import error_without_values, locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published


def environment_difference(
    runtime: Runtime, base: Runtime, environment: str, joints: Collection[str] = ()
) -> EnvironmentDifference:
    """Return the differences of all tables that were built in an environment, or of those of ``joints``.

    ``runtime`` sees the environment and ``base`` the base. Tables are in the plan's order; those that no joint of the
    plan has are left out. Raises RVT-401, RVT-503.
    """
    built = built_tables(base, environment)
    with ExitStack() as open_sessions:
        tables = _Tables(runtime, base, open_sessions)
        return EnvironmentDifference(
            environment, tuple(tables.difference(name, built[name]) for name in built if not joints or name in joints)
        )


def built_tables(base: Runtime, environment: str) -> dict[str, BuiltTable]:
    """Return the tables that were built in an environment, by the stored joint whose rows they hold, in plan order."""
    plan = base.assembly
    targets = {name: target for name in plan.execution_order if (target := plan.target(name)) is not None}
    built: dict[tuple[str, str], BuiltTable] = {}
    for catalog in sorted({target.catalog for target in targets.values()}):
        opened = base.catalog_within_reach(catalog)
        if isinstance(opened, HasEnvironments):
            built |= {(catalog, table.table): table for table in opened.built(environment)}
    return {
        name: built[target.catalog, target.table]
        for name, target in targets.items()
        if (target.catalog, target.table) in built
    }


class _Tables:
    """The comparison of tables, with one session on each engine."""

    def __init__(self, runtime: Runtime, base: Runtime, open_sessions: ExitStack) -> None:
        self._runtime = runtime
        self._base = base
        self._open_sessions = open_sessions
        self._sessions: dict[str, EngineSession] = {}

    def difference(self, name: str, table: BuiltTable) -> TableDifference:
        """Return the difference of one table; without a query for its rows if storage tells that they are equal."""
        plan = self._runtime.assembly
        joint = plan.joint(name)
        shows_values = plan.shows_row_values(name)
        try:
            with locating_errors(joint):
                return self._difference(name, table, SAMPLES if shows_values else 0)
        except RivetError as error:
            raise (error if shows_values else error_without_values(error)) from error.__cause__

    def _difference(self, name: str, table: BuiltTable, samples: int) -> TableDifference:
        schema: tuple[ColumnChange, ...] = ()
        rows = RowDifference()
        if not table.same:
            schema, rows = self._columns_and_rows(name, table, samples)
        same = rows.empty and not schema and table.base is not None
        checks = changed_verdicts(self._runtime, self._base, name, table.base, table.current, same)
        before = {} if table.base is None else table.base.code_versions
        return TableDifference(
            name,
            changed_logic(name, before, table.current.code_versions, self._runtime.code_versions.match),
            schema,
            rows,
            checks,
            rows_before=None if table.base is None else table.base.statistics.rows,
            rows_after=table.current.statistics.rows,
        )

    def _columns_and_rows(
        self, name: str, table: BuiltTable, samples: int
    ) -> tuple[tuple[ColumnChange, ...], RowDifference]:
        plan = self._runtime.assembly
        joint, target = plan.computed(name), plan.target(name)
        assert target is not None
        session = self._session(joint.engine)
        new = self._frame(session, table.current)
        columns = session.columns(new)
        if table.base is None:
            rows = rows_of_new_table(session, new, table.current.statistics.rows, samples)
            return changed_columns(plan, name, (), columns), rows
        old = self._frame(session, table.base)
        counts = table.base.statistics.rows, table.current.statistics.rows
        rows = difference_of_rows(session, old, new, candidate_keys(joint, target), samples, counts)
        return changed_columns(plan, name, session.columns(old), columns), rows

    def _frame(self, session: EngineSession, version: Published) -> Frame:
        return session.load(self._runtime.target_catalog(version.catalog).read(version))

    def _session(self, engine: str) -> EngineSession:
        if engine not in self._sessions:
            self._sessions[engine] = self._open_sessions.enter_context(self._runtime.engine(engine).session())
        return self._sessions[engine]


PASSED, WARNED, FAILED = "passed", "warned", "failed"


def changed_verdicts(
    runtime: Runtime, base: Runtime, joint: str, before: Published | None, after: Published, same_rows: bool
) -> tuple[VerdictChange, ...]:
    """Return the checks of ``joint`` whose verdict on ``after`` differs from that on ``before``; both are judged now.

    Neither storage nor the event log of one Dagster instance knows the verdicts of both, and ``before`` may never have
    been judged by a check that is new.

    ``runtime`` reads both versions, and the tables of other joints as the environment sees them; ``base`` reads those
    as the base has them. With ``same_rows`` only checks that also read other joints are judged. A check of a single
    batch is left out where the batch cannot be told from the other rows of the table. Without ``before`` all verdicts
    that are not ``passed`` are returned. Raises RVT-401.
    """
    checks = runtime.assembly.joint(joint).checks
    wanted = {check.name for check in checks if check.reads or not same_rows}
    if not wanted:
        return ()
    now = {result.check.name: result for result in check_published(runtime, joint, wanted, after)}
    old: dict[str, CheckResult] = {}
    if before is not None:
        old = {result.check.name: result for result in check_published(runtime, joint, wanted, before, base)}
    changes = []
    for name, result in now.items():
        earlier = old.get(name)
        was = None if earlier is None else verdict(earlier)
        if verdict(result) != (was or PASSED):
            changes.append(_change(result, earlier))
    return tuple(changes)


def verdict(result: CheckResult) -> str:
    """Return ``passed``, ``warned`` or ``failed``."""
    if result.passed:
        return PASSED
    return FAILED if result.check.blocking else WARNED


def _change(after: CheckResult, before: CheckResult | None) -> VerdictChange:
    check = after.check
    return VerdictChange(
        check.name,
        check.kind,
        check.phase,
        check.severity,
        None if before is None else verdict(before),
        verdict(after),
        None if before is None else before.violations,
        after.violations,
    )
