"""The failure of a run that may not quarantine rows: with the errors of all rows, not only of the first that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.row_errors import SourceQuery, separated
from rivet_dagster.errors import RivetError, RowsFailed
from rivet_dagster.execution.quality.row_errors import counted_errors
from rivet_dagster.execution.reading.inputs import inputs, query_frame
from rivet_dagster.execution.reading.rendering import RunQueries
from rivet_dagster.execution.results import RowErrorCounts
from rivet_dagster.execution.row_error import RowError
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.writing.row_errors import complete_errors
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.target import source_of


@contextmanager
def raising_all_errors(run: ThisRun, rendered: RunQueries) -> Iterator[None]:
    """Turn RVT-520, one row that could not be evaluated, into an RowError with all errors of all rows.

    To be entered with the views from which the rows are computed. Where the errors cannot be separated from the rows,
    or computing them fails, the engine's own error stays, and its message says why it is alone.
    """
    try:
        yield
    except RowsFailed as error:
        if not rendered.group_query.results:
            raise
        raise _with_all_rows(run, rendered, error) from error.__cause__


def _with_all_rows(run: ThisRun, rendered: RunQueries, error: RivetError) -> RivetError:
    assembly = run.runtime.assembly
    group_query = rendered.group_query
    sources = [joint for name in group_query.read if isinstance(joint := assembly.joint(name), SourceJoint)]
    query = separated(
        group_query,
        {cte.joint: _places(assembly, cte.joint) for cte in group_query.ctes},
        sources=[SourceQuery.of(source, source.file, source.lines) for source in sources],
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
    return RowError.at(found.sites) if found.sites else error


def _counted(run: ThisRun, rendered: RunQueries, errors: FusedQuery) -> RowErrorCounts:
    session = run.session
    with session.separating_errors():
        views = {source: view for view in errors.inputs if (source := source_of(view)) is not None}
        refs = inputs(run.runtime, rendered.group, views, run.given, run.window, views)
        for source, ref in refs.items():
            session.register(views[source], ref.frame_in(session))
        frame = query_frame(run.runtime, rendered, errors, session, run.window)
        return counted_errors(session, complete_errors(run, frame, ""), "", "")


def _places(assembly: CompiledAssembly, name: str) -> tuple[QueryLocation, QueryLocation]:
    joint = assembly.joint(name)
    if not isinstance(joint, QueryJoint):
        return (QueryLocation(name, joint.file),) * 2
    first, later = (
        QueryLocation(name, joint.file, joint.sql_line, lines) for lines in (joint.lines, joint.lines_incremental)
    )
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
