"""Checks of gated sources, as steps that check a source in place before the steps that read it.

Results of checks as Dagster's AssetCheckResult.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.definitions.metadata.error_metadata import bounded, check_metadata, samples_table
from rivet_dagster.definitions.metadata.materialization_metadata import sql_markdown
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_pool, open_runtime
from rivet_dagster.definitions.runs.failure import refuse_after_failure, rivet_failures
from rivet_dagster.definitions.runs.identity import mark_run, step_name
from rivet_dagster.execution.quality.judging import check_source
from rivet_dagster.execution.results import CheckResult
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
