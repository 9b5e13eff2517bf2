"""The last step of runs with `publish: run`: the checks `published`, whose step publishes all tables of the run.

A check is in every run that materializes its asset, however the run was started, and Dagster runs the step of checks
after the steps of the assets that they judge. Since the checks do not block, the joints that read these assets in the
same run do not wait for them.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_keys, open_runtime
from rivet_dagster.definitions.runs.fail_fast import refuse_after_failure
from rivet_dagster.definitions.runs.failure import failure, rivet_failures
from rivet_dagster.definitions.runs.names import step_name
from rivet_dagster.definitions.runs.staged_heartbeats import keep_staged
from rivet_dagster.definitions.runs.staged_rows import staged_in_run, staged_of
from rivet_dagster.definitions.specs.published import LAST_STEP
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.staged_tables import StagedTable, is_published
from rivet_dagster.execution.writing.publish_run import CONFLICT, GONE, RunPublication, publish_run

NOT_ONE_COMMIT = "one table after another: this is not one commit"


def publishing_step(project: RivetProject) -> list[dg.AssetChecksDefinition]:
    """Return the step that publishes all tables of a run, if a catalog of the project has `publish: run`.

    A part of a project has a step of its own, which also waits for the tables of other parts: the first one of a run
    publishes them all.
    """
    keys = {name: project.published_key(name) for name in project.with_run if name in project.selected}
    if not keys:
        return []
    others = [project.key(name) for name in project.with_run if name not in keys]
    first = next(iter(keys))
    parts = [] if len(keys) == len(project.with_run) else [first]
    specs = [
        dg.AssetCheckSpec(
            name=key.name,
            asset=key.asset_key,
            description="Readers see what this asset was last materialized with. The step publishes a run's tables.",
            additional_deps=others if name == first else None,
            blocking=False,
            metadata={"rivet/publish": "run"},
        )
        for name, key in keys.items()
    ]

    @dg.multi_asset_check(
        name=step_name(project.assembly, LAST_STEP, *parts),
        specs=specs,
        description=f"Publishes the tables of a run at its end, {NOT_ONE_COMMIT}",
        required_resource_keys=engine_keys(project.assembly),
        can_subset=True,
    )
    def publish(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        step = context.op_execution_context
        refuse_after_failure(step, project.assembly)
        wanted = {name: key for name, key in keys.items() if key in context.selected_asset_check_keys}
        staged = staged_in_run(step.run, step.instance, project.joints)
        tables = [staged[name] for name in project.with_run if name in staged]
        runtime = open_runtime(project, step.resources, step.run_id)
        keep_staged(step, runtime, tables)
        with rivet_failures():
            try:
                publication = publish_run(runtime, tables, step.log.info)
            except RivetError as error:
                if error.code in (CONFLICT, GONE):  # trying this step again does not help
                    yield from (_refused(key, staged[name], error) for name, key in wanted.items() if name in staged)
                raise
            results = [_result(step, runtime, key, staged.get(name), publication) for name, key in wanted.items()]
        yield from results
        for not_archived in publication.not_archived:
            raise failure(not_archived)

    return [publish]


def _refused(key: dg.AssetCheckKey, table: StagedTable, error: RivetError) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=error.diagnostics[0].message,
        metadata={"rivet/version": table.version},
    )


def _result(
    context: dg.OpExecutionContext,
    runtime: Runtime,
    key: dg.AssetCheckKey,
    table: StagedTable | None,
    publication: RunPublication,
) -> dg.AssetCheckResult:
    if table is not None:
        tables, version = len(publication.published), publication.published[table.joint].version
        metadata: dict[str, Any] = {"rivet/version": version, "rivet/tables": tables, "rivet/one_commit": False}
        text = "published with the run" + (f": {tables} tables, {NOT_ONE_COMMIT}" if tables > 1 else "")
        return dg.AssetCheckResult(
            asset_key=key.asset_key, check_name=key.name, passed=True, description=text, metadata=metadata
        )
    event = context.instance.get_latest_materialization_event(key.asset_key)
    made = event.asset_materialization if event is not None else None
    last = staged_of(made) if made is not None else None
    passed = last is None or is_published(runtime.catalog_within_reach(last.catalog), last)
    text = "this run has nothing to publish"
    if not passed and last is not None:
        text += f"; the rows of the last materialization ({last.version}) have not been published"
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=text,
    )
