"""Computing one joint of a group, a query or a Python function, and writing its rows to a table."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction, WriteContext, unobserved
from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import ComputedJoint, FunctionJoint, QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.compiler.row_errors import SourceQuery, separate_errors
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError, RowsFailed, nearest
from rivet_dagster.execution.progress import CONFIG, WRITE
from rivet_dagster.execution.quality.row_errors import counted_errors
from rivet_dagster.execution.reading.inputs import frames, inputs, positions, query_frame
from rivet_dagster.execution.reading.landing import appends, last_version
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import RunQueries, render_for_run, render_whole
from rivet_dagster.execution.results import RowErrorCounts
from rivet_dagster.execution.row_error import RowError, locate_in_query
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.writing.row_errors import complete_errors, refuse_by_types, refuse_unproven, write_errors
from rivet_dagster.model.inputs import ConsumedFiles, TargetPosition
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import forgotten
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import ReplaceAll
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.target import source_of


def write_joint(
    run: ThisRun,
    exit_name: str,
    transaction: TableTransaction,
    target: Target | None = None,
    window: Window | None = None,
    as_written: bool = False,
    observe: Callable[[Frame], Frame] = unobserved,
) -> RowErrorCounts | None:
    """Write the rows of the joint ``exit_name`` as ``target`` says; without one, replace all rows.

    If the group quarantines rows that cannot be evaluated, these and corrupt records of sources are left out; with a
    ``target`` their errors are written, too, and returned. ``as_written`` computes all rows by the author's own query
    instead, where its success proves that all can be evaluated: RVT-520 is raised if not.

    ``observe`` returns the frame to be written for that of the rows as they are stored, of the same rows.

    ``window`` is the run's window of partitions in the partition column of the table; inputs are read within the run's
    window, too. Raises RVT-513, RowError with all errors of rows, and what ``TableTransaction.write`` does.
    """
    joint, session = run.runtime.assembly.computed(exit_name), run.session
    progress = run.runtime.progress_of(exit_name)
    plan = target.write if target is not None else ReplaceAll()
    counts = None
    quarantines = run.group.target is not None and run.group.target.errors is not None
    with session.views(), session.separating_errors() if quarantines and not as_written else nullcontext():
        with run.clock.phase(CONFIG):
            rendered = _rendered(run, exit_name, as_written)
            run.inputs.update(_upon(run, rendered))
            corrupt: dict[str, Frame] | None = {} if quarantines else None
            frame = _result(run, exit_name, rendered, session, corrupt)
            if quarantines:
                refuse_by_types(run, rendered, as_written)
            if target is not None:
                refuse_outdated(run)
            _refuse_unknown_columns(target.columns if target is not None else (), session, frame)
            computing = partial(_at_its_line, run, joint, rendered)
            context = WriteContext(window, run.started, progress, joint.row_values, computing, run.identity, observe)
        with run.clock.phase(WRITE):
            if corrupt is not None:
                transaction.write(plan, frame, context)
                if as_written:
                    refuse_unproven(rendered, transaction)
                if target is not None:
                    counts = write_errors(run, rendered, corrupt, transaction, target, window)
            else:
                with raising_all_errors(run, rendered):
                    transaction.write(plan, frame, context)
    if transaction.query_plan is not None:
        run.plans[exit_name] = transaction.query_plan
    return counts


def _rendered(run: ThisRun, exit_name: str, as_written: bool) -> RunQueries:
    if run.full_refresh:
        return render_whole(run.group, exit_name, run.started, as_written)
    return render_for_run(run.runtime, run.group, exit_name, run.started, run.session, as_written)


def _upon(run: ThisRun, rendered: RunQueries) -> dict[str, TargetPosition]:
    """Return the versions of tables of other groups that the queries are about."""
    assembly = run.runtime.assembly
    others = {name: version for name, version in rendered.upon.items() if assembly.joint(name).group != run.group.name}
    return {name: TargetPosition((version,)) for name, version in others.items()}


@contextmanager
def _at_its_line(run: ThisRun, joint: ComputedJoint, rendered: RunQueries) -> Iterator[None]:
    try:
        yield
    except RivetError as error:
        queries = rendered.queries
        if len(queries) == 1 and not isinstance(joint, FunctionJoint):
            raise locate_in_query(error, queries[0], run.runtime.assembly) from error.__cause__
        raise


def _refuse_unknown_columns(wanted: Sequence[tuple[str, str]], session: EngineSession, frame: Frame) -> None:
    existing = {name.lower() for name, _ in session.columns(frame)} if wanted else set()
    missing = [(option, name) for option, name in wanted if name.lower() not in existing]
    if missing:
        named = "; ".join(f"`{option}` names {name}{nearest(name, existing, listed=False)}" for option, name in missing)
        raise RivetError("RVT-513", f"the batch has no such column: {named}")


def _result(
    run: ThisRun, exit_name: str, rendered: RunQueries, session: EngineSession, corrupt: dict[str, Frame] | None
) -> Frame:
    runtime, given, window = run.runtime, run.given, run.window
    joint = runtime.assembly.joint(exit_name)
    if isinstance(joint, FunctionJoint):
        refs = inputs(runtime, joint.group, joint.upstream, given, window)
        run.inputs.update(positions(refs))
        handles = {name: ref.bound_to(session) for name, ref in refs.items()}
        try:
            return call(joint, load_function(joint, runtime.root), handles, session)
        finally:
            for handle in handles.values():
                handle.end()
    parts = frames(runtime, rendered, session, given, window, run.inputs, corrupt)
    return parts[0] if len(parts) == 1 else session.union_by_name(parts)


def refuse_outdated(run: ThisRun) -> None:
    """Raise RVT-405 if rows of stored joints that the run reads would be published twice, or upon another version.

    They would if they were computed upon another version of the table than the published one, by its watermark, or from
    files of landing zones that it has consumed, RVT-420 if that is not known any more. Only tables that append have
    rows twice; rows that were computed from the table's own must be published upon these.
    """
    assembly, group = run.runtime.assembly, run.group
    if run.full_refresh or not (appends(group) or _is_read(assembly, group)):
        return
    current = last_version(run.runtime, assembly.joint(group.exit))
    version = current.version if current is not None else ""
    for name, position in sorted(run.inputs.items()):
        joint, _, of = name.partition("/")
        if isinstance(position, TargetPosition) and of == group.exit and position.versions != (version,):
            raise _outdated(joint, f"{position} of '{of}', which is at {version or 'none'} now")
        if isinstance(position, ConsumedFiles) and of and appends(group) and current is not None:
            if current.unknown_before is not None:
                raise forgotten(current)
            known = current.landed[name].known if name in current.landed else frozenset()
            twice = next((file.path for file in position.files if file in known), None)
            if twice is not None:
                raise _outdated(joint, f"from {twice}, whose rows '{group.exit}' has appended since")


def _is_read(assembly: CompiledAssembly, group: FusedGroup) -> bool:
    """Return whether stored joints are computed from the rows of the group's table."""
    texts = (cte.incremental for other in assembly.fused_groups if other is not group for cte in other.ctes)
    return any(text is not None and text.this and text.sink == group.exit for text in texts)


def _outdated(joint: str, how: str) -> RivetError:
    remedy = f"Run '{joint}' again, together with what reads it."
    return RivetError("RVT-405", f"the rows of '{joint}' were computed {how}", remediation=remedy)


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
    query = separate_errors(
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
        counts = _counted(run, rendered, errors)
    except RivetError as failure:
        return _saying(error, f" (the only one told: {failure.diagnostics[0].message})")
    return RowError.at(counts.sites) if counts.sites else error


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


_PACKAGE = "Install it where rivet_dagster is; the pandas that fits Spark: pip install 'rivet_dagster[pandas]'."


def load_function(joint: FunctionJoint, root: Path) -> Callable[..., Any]:
    """Return the joint's function; its file is executed with the project's root on sys.path. Raises RVT-504."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    path = root / joint.function_file
    spec = importlib.util.spec_from_file_location(f"rivet_joint_{joint.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module there. It must not stay there: functions are pickled by value for Spark's workers
    # only if their module cannot be imported.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        function: Callable[..., Any] = getattr(module, joint.function.rpartition(":")[2])
        return function
    except (Exception, SystemExit) as error:
        raise _failed(joint, "could not be loaded", error) from error
    finally:
        sys.modules.pop(spec.name, None)


def call(
    joint: FunctionJoint, function: Callable[..., Any], upstream: Mapping[str, MaterializedRef], session: EngineSession
) -> Frame:
    """Call the function with handles on its upstream, and return its value as a frame. Raises RVT-504, RVT-505."""
    try:
        value = function(*upstream.values()) if len(upstream) == 1 else function(**upstream)
    except RivetError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(joint, "failed", error) from error
    if isinstance(value, MaterializedRef):
        return value.frame_in(session)
    frame = session.from_value(value)
    if frame is None:
        message = f"{joint.function} returned {_kind(value)}"
        raise RivetError("RVT-505", message, joint=joint.name, file=joint.file, line=joint.line)
    return frame


def _failed(joint: FunctionJoint, outcome: str, error: BaseException) -> RivetError:
    file, line = joint.function_file, joint.line
    trace = error.__traceback__
    while trace is not None:  # the innermost frame in the joint's own file
        if trace.tb_frame.f_code.co_filename.endswith(joint.function_file):
            line = trace.tb_lineno
        trace = trace.tb_next
    message = f"{joint.function} {outcome}: {type(error).__name__}: {error}"
    remedy = _PACKAGE if isinstance(error, ImportError) else None
    return RivetError("RVT-504", message, remediation=remedy, joint=joint.name, file=file, line=line)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
