"""The errors of rows that a run could not evaluate: written beside the good rows, or the reason why the run fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.error_tables import ErrorTransaction, HasErrorTables
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.rewriting.error_retention import retained_errors
from rivet_dagster.compiler.group_query import FusedQuery, GroupQuery
from rivet_dagster.compiler.joints import QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.row_errors import separated
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.evaluation_error import CODE, EvaluationError
from rivet_dagster.execution.quality.evaluation_errors import counted_errors
from rivet_dagster.execution.reading.corrupt_records import errors_of_records, without_records_of
from rivet_dagster.execution.reading.inputs import query_frame
from rivet_dagster.execution.reading.rendering import Rendered
from rivet_dagster.execution.results import EvaluationErrors
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.row_errors import QUERY_COLUMNS, Proof
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Append, Refresh, ReplaceAll, Upsert
from rivet_dagster.sql.evaluation.error_query import Place

_NEW = "rivet_new_errors"
_OF_RUN = (
    f"SELECT {', '.join(f'`{name}`' for name in QUERY_COLUMNS)}, :run_id AS run_id, :version AS version FROM {_NEW}"
)


def write_errors(
    run: ThisRun,
    rendered: Rendered,
    corrupt: Mapping[str, Frame],
    transaction: TableTransaction,
    target: Target,
    window: Window | None,
) -> EvaluationErrors:
    """Write this run's errors to the error table of the version, and those of its base that still hold.

    ``corrupt`` holds the corrupt records of sources, by source; each of them is an error, too.

    To be called after the good rows have been written, with the views from which they were computed. ``window`` holds
    the run's partitions in the target.
    """
    assert target.errors is not None and isinstance(transaction, ErrorTransaction)
    table, session, version = target.errors.table, run.session, transaction.version
    stored = transaction.write_errors(table, None)
    parts = [errors_of_records(session, records, _source(run, name)) for name, records in corrupt.items()]
    if rendered.errors is not None:
        parts.append(query_frame(run.runtime, rendered, rendered.errors, session, run.window))
    if parts:
        errors = parts[0] if len(parts) == 1 else session.union_by_name(parts)
        stored = transaction.write_errors(table, _of_run(session, errors, run.identity, version))
    new = session.load(stored.relation)
    catalog = capable(run.runtime.target_catalog(target.catalog), HasErrorTables)
    published = catalog.current(target.table)
    replaces = window is None and isinstance(target.write, ReplaceAll | Refresh)
    base = catalog.errors_of(published) if published is not None and not replaces else None
    held = retained_errors(target.write, session, base, new, transaction.batch.relation, window)
    if held is not None:
        held = without_records_of(session, held, _read_anew(run, rendered, target))
        stored = transaction.write_errors(table, held)
    if stored.statistics.rows == 0:
        return EvaluationErrors(table, 0, 0)
    return counted_errors(session, session.load(stored.relation), table, version)


def may_prove(run: ThisRun, catalog: HasTargets, target: Target) -> bool:
    """Return whether to compute the rows by the author's own query, whose success may prove that there are no errors.

    Not so where the published version has errors: then this one most likely has some, too.
    """
    query = run.group.query
    replaced = isinstance(target.write, ReplaceAll | Upsert | Refresh) and target.partitions is None
    if target.errors is None or query is None or not replaced or _proof(query, query.incremental_joints) == "never":
        return False
    published = catalog.current(target.table)
    if published is not None and published.unknown_before is not None:
        return False
    errors = capable(catalog, HasErrorTables).errors_of(published) if published is not None else None
    if errors is None:
        return True
    with run.session.views():
        run.session.register(_NEW, run.session.load(errors))
        return not run.session.rows(f"SELECT 1 AS one FROM {_NEW} LIMIT 1")


def refuse_unproven(rendered: Rendered, transaction: TableTransaction) -> None:
    """Raise RVT-520 if a success of the author's own query does not prove that all rows can be evaluated."""
    proof = rendered.group_query.proof(rendered.incremental)
    if proof == "never" or (proof == "with rows" and transaction.batch.statistics.rows == 0):
        raise RivetError(CODE, "it is not certain that all rows can be evaluated")


def _proof(query: GroupQuery, incremental: Collection[str]) -> Proof:
    """Return the weaker proof of a first run, and of an incremental one."""
    proofs = {query.proof(), query.proof(incremental)}
    return "never" if "never" in proofs else "with rows" if "with rows" in proofs else "always"


def _read_anew(run: ThisRun, rendered: Rendered, target: Target) -> list[str]:
    """Return the sources whose corrupt records are all among those of this run.

    None if each run appends the rows of the whole sources; its errors are appended then, too.
    """
    if isinstance(target.write, Append) and not rendered.incremental:
        return []
    names = {name for query in rendered.queries for name in query.inputs}
    joints = [run.runtime.assembly.joint(name) for name in sorted(names)]
    return [joint.name for joint in joints if isinstance(joint, SourceJoint) and joint.landing is None]


def _source(run: ThisRun, name: str) -> SourceJoint:
    source = run.runtime.assembly.joint(name)
    assert isinstance(source, SourceJoint)
    return source


@contextmanager
def explained(run: ThisRun, rendered: Rendered) -> Iterator[None]:
    """Turn RVT-520, one row that could not be evaluated, into an EvaluationError with all errors of all rows.

    To be entered with the views from which the rows are computed. Where the errors cannot be separated from the rows,
    or computing them fails, the engine's own error stays, and its message says why it is alone.
    """
    try:
        yield
    except RivetError as error:
        if error.code != CODE or not rendered.group_query.ctes:
            raise
        raise _with_all_rows(run, rendered, error) from error.__cause__


def _with_all_rows(run: ThisRun, rendered: Rendered, error: RivetError) -> RivetError:
    assembly = run.runtime.assembly
    query = separated(
        rendered.group_query, {cte.joint: _places(assembly, cte.joint) for cte in rendered.group_query.ctes}
    )
    alone = query.not_separable(rendered.incremental)
    errors = query.errors(rendered.incremental)
    if errors is None or alone is not None:
        because = "" if alone is None else f" (the only one told: {alone.construct} hides the others)"
        return _saying(error, because)
    try:
        found = _counted(run, rendered, errors)
    except RivetError as failure:
        return _saying(error, f" (the only one told: {failure.diagnostics[0].message})")
    return EvaluationError.at(found.sites) if found.sites else error


def _counted(run: ThisRun, rendered: Rendered, errors: FusedQuery) -> EvaluationErrors:
    session = run.session
    with session.separating_errors():
        frame = query_frame(run.runtime, rendered, errors, session, run.window)
        return counted_errors(session, _of_run(session, frame, run.identity, ""), "", "")


def _of_run(session: EngineSession, errors: Frame, run_id: str, version: str) -> Frame:
    with session.views():
        session.register(_NEW, errors)
        return session.query(_OF_RUN, {"run_id": run_id.partition("/")[0], "version": version})


def _places(assembly: CompiledAssembly, name: str) -> tuple[Place, Place]:
    joint = assembly.joint(name)
    if not isinstance(joint, QueryJoint):
        return (Place(name, joint.file),) * 2
    first, later = (Place(name, joint.file, joint.sql_line, lines) for lines in (joint.lines, joint.lines_incremental))
    return first, later


def _saying(error: RivetError, more: str) -> RivetError:
    first = error.diagnostics[0]
    return RivetError(
        first.code,
        f"{first.message}{more}",
        joint=first.joint,
        file=first.file,
        line=first.line,
        remediation=first.remediation,
    )
