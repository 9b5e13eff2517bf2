"""The run of a fused group in a Dagster step, which yields the events of its table and of the error table beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint, FusedGroup
from rivet_dagster.definitions.check_steps import asset_check_result
from rivet_dagster.definitions.partitions import run_window
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import open_runtime
from rivet_dagster.definitions.runs.event_log import (
    TAG,
    data_version,
    read_since,
    staged_by_run,
    staged_in_run,
    staged_metadata,
    staged_table,
)
from rivet_dagster.definitions.runs.failure import (
    TimeLimit,
    failure,
    refuse_after_failure,
    rivet_failures,
    step_failures,
)
from rivet_dagster.definitions.runs.identity import (
    enter_environment,
    enter_full_refresh,
    environment_metadata,
    full_refresh_metadata,
    run_identity,
    step_name,
)
from rivet_dagster.definitions.runs.staged_heartbeats import keep_earlier, keep_staged
from rivet_dagster.definitions.specs.materialization_metadata import (
    MOST_COUNTED,
    PARTITION_ROW_COUNT,
    ROW_COUNT,
    divide_metadata,
    exit_metadata,
    inner_metadata,
    partition_counts,
)
from rivet_dagster.definitions.specs.samples_and_errors import error_table_metadata, table_metadata
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import evict
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.progress import ProgressLines, ProgressListener
from rivet_dagster.execution.quality.judging import check_published
from rivet_dagster.execution.quality.row_errors import published_errors
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import errors_reference
from rivet_dagster.execution.results import CheckResult, GroupResult, RowErrorCounts, StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Published

GroupEvent = dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.AssetMaterialization
"""An event that a group's run yields."""


@dataclass(frozen=True)
class RivetGroupRun:
    """A fused group in one run, as ``@rivet_assets`` passes it to the decorated function.

    ``name`` is the name of the group; ``joints`` are those of its joints that are assets here, in topological order.
    The last one is the group's exit, or stands in for it if the exit is not an asset here. ``given`` are handles on the
    assets here that the group reads from other groups; ``listeners`` are told phases and the progress of writes.
    """

    project: RivetProject
    name: str
    joints: tuple[CompiledJoint, ...]
    given: Mapping[str, MaterializedRef]
    listeners: Sequence[ProgressListener] = ()

    def run(self, context: dg.AssetExecutionContext) -> Iterator[GroupEvent]:
        """Compute, check and publish the selected joints as one query; yield check results, then materializations.

        If the gate fails, there are check results but no materializations. Any other error is raised as Dagster's
        Failure, and what was published stays as it was. A run that selects only checks judges the published rows. The
        error table that is published with the group's exit comes last, as an AssetMaterialization if it is not
        selected.
        """
        project = self.project
        refuse_after_failure(context.op_execution_context, project.assembly)
        group = project.assembly.group(self.name)
        keys = {joint.name: project.key(joint.name) for joint in self.joints}
        partitions = self.joints[-1].partitions
        limit = TimeLimit(project.assembly.joint(group.exit))
        listeners: list[ProgressListener] = [ProgressLines(context.log.info), *self.listeners]

        def staged(joint: str) -> StagedResult | None:
            if joint not in project.with_run:
                return None
            return staged_by_run(context.run, context.instance, project.key(joint), project.joints)

        runtime = open_runtime(project, context.resources, context.run.run_id, listeners, limit.check, staged)
        with rivet_failures():
            enter_environment(project, runtime, context.run, context.instance)
        selected = [name for name, key in keys.items() if key in context.selected_asset_keys]
        if not selected:
            yield from _judge_only(context, project, runtime, self.joints)
            if group.exit in keys:
                yield from published_error_table(context, project, runtime, group)
            return
        step, shows_values = project.assembly.joint(group.exit).step, project.assembly.shows_row_values(group.name)
        with step_failures(context, step, shows_values):
            if group.target is not None and group.target.with_run and group.exit in selected:
                _refuse_without_last_step(context, project, group)
            if project.with_run:
                keep_earlier(
                    context.op_execution_context,
                    runtime,
                    lambda: staged_in_run(context.run, context.instance, project.joints).values(),
                )
            full_refresh = enter_full_refresh(project, runtime, context.run, context.instance)
            unjudged = _unjudged_sources(context, group, project)
            window = run_window(context, partitions)
            first_try = run_identity(context.run, context.instance, group_step_name(project, self.joints))
            identity = "/".join([first_try, group.name, *([str(window)] if window else [])])
            result = run_group(runtime, group.name, selected, identity, self.given, unjudged, window, full_refresh)
            if (exit_table := staged_table(group.exit, result)) is not None:
                keep_staged(context.op_execution_context, runtime, [exit_table])
        yield from _check_results(context, project, result.checks)
        if not result.gate_failed:
            if group.exit in keys:
                _add_partition_counts(context, keys[group.exit], result, window)
            for name in selected:
                yield _materialization(context, project, runtime, name, result, window)
            if group.exit in keys:
                yield from error_table_events(context, project, runtime, group, result, window)
            # Dagster has recorded the materializations by now.
            with rivet_failures():
                evicted = evict(runtime, group.name, read_since(context.instance, project))
            if evicted:
                context.log.info(f"evicted, since nobody reads them any more: {', '.join(evicted)}")
            if result.not_archived:
                raise failure(result.not_archived)


def group_step_name(project: RivetProject, joints: Sequence[CompiledJoint]) -> str:
    """Return the name of the step for a group whose ``joints`` are assets here; each part of a group has its own."""
    return step_name(project.assembly, joints[-1].name)


def _judge_only(
    context: dg.AssetExecutionContext, project: RivetProject, runtime: Runtime, joints: Sequence[CompiledJoint]
) -> Iterator[dg.AssetCheckResult]:
    """Judge the published rows, in a run that selects only checks; nothing is written."""
    for joint in joints:
        keys = {check.name: project.check_key(check, joint.name) for check in joint.checks}
        wanted = {name for name, key in keys.items() if key in context.selected_asset_check_keys}
        if wanted:
            with rivet_failures():
                results = check_published(runtime, joint.name, wanted)
            errors = project.errors_key(joint.name)
            yield from (asset_check_result(result, keys[result.check.name], errors) for result in results)


def _check_results(
    context: dg.AssetExecutionContext, project: RivetProject, results: tuple[CheckResult, ...]
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the selected checks; a failed blocking check that is not selected fails the step."""
    hidden = []
    for result in results:
        key = project.check_key(result.check, result.joint)
        if key in context.selected_asset_check_keys:
            yield asset_check_result(result, key, project.errors_key(result.joint))
        elif result.blocks:
            hidden.append(result.check.name)
    if hidden:
        raise failure(RivetError("RVT-507", f"the gate failed: {', '.join(hidden)}", joint=results[0].joint))


def _refuse_without_last_step(context: dg.AssetExecutionContext, project: RivetProject, group: FusedGroup) -> None:
    """Raise RVT-524 if the run leaves out the check whose step publishes the rows: they would not be published."""
    key = project.published_key(group.exit)
    if key not in _planned_checks(context.instance, context.run.run_id):
        message = f"the run leaves out the check '{key.name}', whose step publishes the rows"
        raise RivetError("RVT-524", message, joint=group.exit)


@lru_cache(maxsize=1)
def _planned_checks(instance: dg.DagsterInstance, run_id: str) -> frozenset[dg.AssetCheckKey]:
    """Return the checks of a run, recorded before its first step: one look-up serves all steps of a process."""
    planned = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    events = (entry.dagster_event for entry in planned)
    return frozenset(event.asset_check_planned_data.asset_check_key for event in events if event is not None)


def _unjudged_sources(context: dg.AssetExecutionContext, group: FusedGroup, project: RivetProject) -> tuple[str, ...]:
    """Return the gated sources of the group whose checks this run has not evaluated."""
    gated = [j for name in group.before if (j := project.assembly.joint(name)).type == SOURCE and j.checks]
    if not gated:
        return ()
    records = context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    judged = {r.dagster_event.asset_check_evaluation_data.asset_check_key for r in records if r.dagster_event}
    return tuple(
        joint.name
        for joint in gated
        if any(check.blocking and project.check_key(check, joint.name) not in judged for check in joint.checks)
    )


def _materialization(
    context: dg.AssetExecutionContext,
    project: RivetProject,
    runtime: Runtime,
    name: str,
    result: GroupResult,
    window: Window | None,
) -> dg.MaterializeResult[Any]:
    joint, key = project.assembly.joint(name), project.key(name)
    target = project.assembly.group(joint.group).target if name == joint.group else None
    version = None
    with rivet_failures():
        if target is None:
            metadata = inner_metadata(joint, result, window)
        else:
            metadata = exit_metadata(joint, target, result) | staged_metadata(name, result)
            errors, errors_key = shown_errors(result, project), project.errors_key(name)
            if errors is not None and errors_key is not None and result.published is not None:
                metadata |= table_metadata(errors, errors_key)
            version = data_version(context.instance, runtime, target, key, result, window)
        value = reference(runtime, name)
    metadata |= environment_metadata(project.environment) | full_refresh_metadata(result.full_refresh)
    shared = _shared_metadata(context, key, metadata, window)
    return dg.MaterializeResult(asset_key=key, value=value, metadata=shared, data_version=version)


def _shared_metadata(
    context: dg.AssetExecutionContext, key: dg.AssetKey, metadata: dict[str, Any], window: Window | None
) -> dict[str, Any]:
    """Return the metadata that all partitions of a run have, after giving the last of several the rest."""
    if window is None or len(window.keys) == 1:
        return metadata
    shared, of_last = divide_metadata(metadata)
    if of_last:
        context.add_asset_metadata(of_last, asset_key=key, partition_key=window.keys[-1])
    return shared


def _add_partition_counts(
    context: dg.AssetExecutionContext, exit_key: dg.AssetKey, result: GroupResult, window: Window | None
) -> None:
    """Add the row count of each partition, or of many partitions all in one entry of the last."""
    counts = result.partition_rows
    if window is not None and len(counts) > MOST_COUNTED:
        context.add_asset_metadata(partition_counts(counts), asset_key=exit_key, partition_key=window.keys[-1])
        return
    for key, rows in counts.items():
        context.add_asset_metadata({PARTITION_ROW_COUNT: rows}, asset_key=exit_key, partition_key=key)


ErrorTableEvent = dg.MaterializeResult[Any] | dg.AssetMaterialization


def shown_errors(result: GroupResult, project: RivetProject) -> RowErrorCounts | None:
    """Return the errors of a run, without values of rows where a joint of the group forbids to show them."""
    judged = (check.errors for check in result.checks if check.errors is not None)
    errors = result.errors or next(judged, None)  # a retry of a run that has published only judges
    if errors is None or project.assembly.shows_row_values(result.group):
        return errors
    return errors.without_values()


def error_table_events(
    context: dg.AssetExecutionContext,
    project: RivetProject,
    runtime: Runtime,
    group: FusedGroup,
    result: GroupResult,
    window: Window | None,
) -> Iterator[ErrorTableEvent]:
    """Yield the materialization of the error table that a run has published, whether or not it is selected."""
    key = project.errors_key(group.exit)
    if key is None or result.published is None:
        return
    metadata = _metadata(project, result.published, shown_errors(result, project))
    if key in context.selected_asset_keys:
        with rivet_failures():
            value = errors_reference(runtime, group.exit)
        version = dg.DataVersion(result.published.version)
        shared = _shared_metadata(context, key, metadata, window)
        yield dg.MaterializeResult(asset_key=key, value=value, metadata=shared, data_version=version)
        return
    tags = {TAG: result.published.version}
    *others, last = window.keys if window is not None else (None,)
    shared, _ = divide_metadata(metadata)
    for partition in others:
        yield dg.AssetMaterialization(key, metadata=shared, partition=partition, tags=tags)
    yield dg.AssetMaterialization(key, metadata=metadata, partition=last, tags=tags)


def published_error_table(
    context: dg.AssetExecutionContext, project: RivetProject, runtime: Runtime, group: FusedGroup
) -> Iterator[ErrorTableEvent]:
    """Yield the materialization of the error table as it is published, in a run that does not select its table.

    Nothing is written: errors are published with their table alone.
    """
    key, target = project.errors_key(group.exit), group.target
    if key is None or target is None or target.errors is None or key not in context.selected_asset_keys:
        return
    with rivet_failures():
        published = runtime.target_catalog(target.catalog).current(target.table)
        if published is None:
            raise RivetError("RVT-401", f"'{group.exit}' has never been materialized", joint=group.exit)
        with closing(runtime.engine(group.engine).session()) as session:
            errors = published_errors(runtime, published, target.errors, session)
        if not project.assembly.shows_row_values(group.name):
            errors = errors.without_values()
        value = errors_reference(runtime, group.exit)
    version = dg.DataVersion(published.version)
    yield dg.MaterializeResult(
        asset_key=key, value=value, metadata=_metadata(project, published, errors), data_version=version
    )


def _metadata(project: RivetProject, published: Published, errors: RowErrorCounts | None) -> dict[str, Any]:
    counts = {ROW_COUNT: errors.total, **error_table_metadata(errors)} if errors is not None else {}
    return {"rivet/version": published.version, **counts, **environment_metadata(project.environment)}
