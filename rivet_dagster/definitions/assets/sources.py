"""Sources: external assets that are observed, and judged in place where they have checks."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.definitions.beta import beta_accepted
from rivet_dagster.definitions.checks.check_results import asset_check_result
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.resources import ENGINE_TAG, engine_keys, engine_pool, open_runtime
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.definitions.runs.names import step_name
from rivet_dagster.execution.judging import check_source
from rivet_dagster.execution.reading import data_version
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.kept import is_kept


def source_assets(project: RivetProject) -> list[dg.AssetsDefinition]:
    """One observation for all sources of a catalog; no engine takes part in it.

    Another Dagster asset that is read as a source tells of itself.
    """
    by_catalog: dict[str, list[SourceJoint]] = {}
    for joint in project.assembly.joints:
        if isinstance(joint, SourceJoint) and not is_kept(joint):
            by_catalog.setdefault(joint.catalog, []).append(joint)
    with beta_accepted():
        return [
            _observation(project, _observation_name(project, name, sources), chosen)
            for name, sources in by_catalog.items()
            if (chosen := [joint for joint in sources if joint.name in project.selected])
        ]


def source_checks(project: RivetProject) -> list[dg.AssetChecksDefinition]:
    """A step for each gated source, before all that read it."""
    gated = (joint for joint in project.assembly.joints if isinstance(joint, SourceJoint) and joint.checks)
    return [_gate(project, joint) for joint in gated if _belongs_here(project, joint.name)]


def _belongs_here(project: RivetProject, source: str) -> bool:
    """Whether the source is selected; of one that is another Dagster asset the first joint that reads it."""
    external = is_kept(project.assembly.joint(source))
    first = project.assembly.consumers(source)[:1] if external else (source,)
    return project.selected.issuperset(first)


def _observation_name(project: RivetProject, catalog: str, sources: list[SourceJoint]) -> str:
    """The catalog's; where others may observe the rest of it, with the first source that is observed here."""
    chosen = [joint.name for joint in sources if joint.name in project.selected]
    return step_name(project.assembly, "observe", catalog, *(chosen[:1] if len(chosen) < len(sources) else []))


def _observation(project: RivetProject, name: str, sources: list[SourceJoint]) -> dg.AssetsDefinition:
    by_key = {project.key(joint.name): joint for joint in sources}

    @dg.multi_observable_source_asset(  # type: ignore[untyped-decorator]
        name=name,
        specs=[project.asset_spec(joint.name) for joint in sources],
        can_subset=True,
    )
    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        runtime = Runtime(project.assembly, project.root)
        for key in sorted(context.selected_asset_keys):
            with rivet_failures():
                version = data_version(runtime, by_key[key])
            yield dg.ObserveResult(asset_key=key, data_version=dg.DataVersion(version))

    assert isinstance(observe, dg.AssetsDefinition)
    return observe


def _gate(project: RivetProject, joint: SourceJoint) -> dg.AssetChecksDefinition:
    keys = {check.name: project.check_key(check, joint.name) for check in joint.checks}

    @dg.multi_asset_check(
        name=step_name(project.assembly, "check", joint.name),
        specs=[project.check_spec(check, joint.name) for check in joint.checks],
        required_resource_keys=engine_keys(project.assembly),
        op_tags={ENGINE_TAG: joint.engine},
        pool=engine_pool(joint.engine),
        can_subset=True,
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {name for name, key in keys.items() if key in context.selected_asset_check_keys}
        with rivet_failures():
            results = check_source(open_runtime(project, context.resources), joint.name, wanted)
        yield from (asset_check_result(result, keys[result.check.name]) for result in results)

    return judge
