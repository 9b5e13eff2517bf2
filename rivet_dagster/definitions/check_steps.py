"""Steps of checks: those that judge a gated source before it is read, and the last step of runs with `publish: run`.

The checks `published` have as their step the one that publishes all tables of the run. A check is in every run that
materializes its asset, however the run was started, and Dagster runs the step of checks after the steps of the assets
that they judge. Since the checks do not block, the joints that read these assets in the same run do not wait for them.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.definitions.automation import published_condition
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_pool, open_runtime
from rivet_dagster.definitions.runs.event_log import staged_in_run, staged_of
from rivet_dagster.definitions.runs.failure import failure, refuse_after_failure, rivet_failures
from rivet_dagster.definitions.runs.identity import environment_of, mark_run, step_name
from rivet_dagster.definitions.runs.staged_heartbeats import keep_staged
from rivet_dagster.definitions.specs.materialization_metadata import sql_markdown
from rivet_dagster.definitions.specs.samples_and_errors import bounded, check_metadata, samples_table
from rivet_dagster.definitions.specs.selection import LAST_STEP
from rivet_dagster.errors import Conflict, RivetError, StagedRowsGone
from rivet_dagster.execution.quality.judging import check_source
from rivet_dagster.execution.results import CheckResult, StagedResult, is_published
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.publish_run import RunPublication, publish_run
from rivet_dagster.model.external_assets import is_external
from rivet_dagster.secrets.redaction import redacted


def source_checks(project: RivetProject) -> list[dg.AssetChecksDefinition]:
    """Return a step for each gated source, which runs before the steps that read the source."""
    gated = (joint for joint in project.assembly.joints if isinstance(joint, SourceJoint) and joint.checks)
    keys = engine_keys(project.assembly)
    return [_gate(project, joint, keys) for joint in gated if _belongs_here(project, joint.name)]


def _belongs_here(project: RivetProject, source: str) -> bool:
    """Return whether the source is selected; for an external asset, whether the first joint that reads it is."""
    external = is_external(project.assembly.joint(source))
    first = project.assembly.consumers(source)[:1] if external else (source,)
    return project.selected.issuperset(first)


def _gate(project: RivetProject, joint: SourceJoint, resources: set[str]) -> dg.AssetChecksDefinition:
    keys = {check.name: project.check_key(check, joint.name) for check in joint.checks}

    @dg.multi_asset_check(
        name=step_name(project.assembly, "check", joint.name),
        specs=[project.check_spec(check, joint.name) for check in joint.checks],
        required_resource_keys=resources,
        op_tags={ENGINE_TAG: joint.engine},
        pool=engine_pool(joint.engine),
        can_subset=True,
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {name for name, key in keys.items() if key in context.selected_asset_check_keys}
        step = context.op_execution_context
        refuse_after_failure(step, project.assembly)
        with rivet_failures():
            mark_run(project, step.run, step.instance)
            results = check_source(open_runtime(project, step.resources, step.run_id), joint.name, wanted)
        yield from (asset_check_result(result, keys[result.check.name]) for result in results)

    return judge


def asset_check_result(
    result: CheckResult, key: dg.AssetCheckKey, errors_table: dg.AssetKey | None = None
) -> dg.AssetCheckResult:
    """Return the result of a check as Dagster records it; ``errors_table`` is the asset of errors that it judges."""
    metadata: dict[str, Any] = {
        "rivet/violations": result.violations if result.violations is not None else dg.MetadataValue.null(),
        "rivet/sql": sql_markdown(result.sql),
        "rivet/seconds": round(result.seconds, 3),
        "rivet/kind": result.check.kind,
        "rivet/phase": result.check.phase,
    }
    if result.samples:
        metadata["rivet/samples"] = samples_table(bounded(result.samples))
    if result.errors is not None:
        metadata |= check_metadata(result.errors, errors_table)
    if result.error is not None:
        metadata["rivet/error"] = redacted(result.error)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if result.check.blocking else dg.AssetCheckSeverity.WARN,
        description=summary(result),
        metadata=metadata,
    )


def summary(result: CheckResult) -> str:
    """Return a short text of the result of a check."""
    if result.violations is None:
        return f"could not run: {redacted(str(result.error))}"
    violations = f"{result.violations} violation{'' if result.violations == 1 else 's'}"
    if result.passed:
        return f"passed, with {violations} within the limit" if result.violations else "passed"
    return violations


ONE_COMMIT, NOT_ONE_COMMIT = "in one commit", "one table after another: this is not one commit"
ONE_EACH = "in one commit for each catalog that can do that, else one table after another: this is not one commit"

_PAGE = 100
"""How many materializations are looked up at once."""


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
    how, requested = _how(project), _requested_with_gates(project)
    parts = [] if len(keys) == len(project.with_run) else [first]
    specs = [
        dg.AssetCheckSpec(
            name=key.name,
            asset=key.asset_key,
            description="Readers see what this asset was last materialized with. The step publishes a run's tables.",
            additional_deps=others if name == first else None,
            blocking=False,
            metadata={"rivet/publish": "run"},
            automation_condition=published_condition(key.asset_key) if name in requested else None,
        )
        for name, key in keys.items()
    ]

    @dg.multi_asset_check(
        name=step_name(project.assembly, LAST_STEP, *parts),
        specs=specs,
        description=f"Publishes the tables of a run at its end, {how}",
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
            mark_run(project, step.run, step.instance)
            try:
                publication = publish_run(runtime, tables, step.log.info)
            except RivetError as error:
                if isinstance(error, Conflict | StagedRowsGone):  # trying this step again does not help
                    yield from (_refused(key, staged[name], error) for name, key in wanted.items() if name in staged)
                raise
            results = [
                _published(staged[name], key, publication, how) if name in staged else _not_in_run(step, runtime, key)
                for name, key in wanted.items()
            ]
        yield from results
        for not_archived in publication.not_archived:
            raise failure(not_archived)

    return [publish]


def _requested_with_gates(project: RivetProject) -> set[str]:
    """Return the joints that may be requested in one tick with the checks of a gated source.

    Dagster names the checks of such a run, and would leave out those that have no condition.
    """
    if all(spec.automation_condition is None for spec in project.specs.checks.values()):
        return set()
    specs = {name: project.specs.joints[name] for name in project.with_run}
    return {name for name, spec in specs.items() if spec.automation_condition is not None and not spec.partitions_def}


def _how(project: RivetProject) -> str:
    """Return how the tables of a run are published."""
    targets = (project.assembly.target(name) for name in project.with_run)
    catalogs = {target.catalog: target.one_commit for target in targets if target is not None}
    if not any(catalogs.values()):
        return NOT_ONE_COMMIT
    return ONE_COMMIT if len(catalogs) == 1 else ONE_EACH


def _refused(key: dg.AssetCheckKey, table: StagedResult, error: RivetError) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=error.diagnostics[0].message,
        metadata={"rivet/version": table.version},
    )


def _published(
    table: StagedResult, key: dg.AssetCheckKey, publication: RunPublication, how: str
) -> dg.AssetCheckResult:
    tables, version = len(publication.published), publication.published[table.joint].version
    one_commit = publication.one_commit
    if one_commit or how == ONE_COMMIT:  # but for what an earlier run of a re-execution has published
        how = ONE_COMMIT if one_commit else NOT_ONE_COMMIT
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=True,
        description="published with the run" + (f": {tables} tables, {how}" if tables > 1 else ""),
        metadata={"rivet/version": version, "rivet/tables": tables, "rivet/one_commit": one_commit},
    )


def _not_in_run(context: dg.OpExecutionContext, runtime: Runtime, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    made = _last_materialization(context.instance, key.asset_key, runtime.environment)
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


def _last_materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey, environment: str | None
) -> dg.AssetMaterialization | None:
    """Return the last materialization in an environment, or in the base; None if there is none."""
    cursor = None
    while True:
        page = instance.fetch_materializations(key, limit=_PAGE, cursor=cursor)
        for record in page.records:
            made = record.asset_materialization
            if made is not None and environment_of(made) == environment:
                return made
        if not page.has_more:
            return None
        cursor = page.cursor
