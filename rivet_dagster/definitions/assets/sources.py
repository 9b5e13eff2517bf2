"""Sources as observable assets."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.definitions.beta import beta_accepted
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import mark_run
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.definitions.runs.names import step_name
from rivet_dagster.execution.reading.sources import data_version
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import is_external


def source_assets(project: RivetProject) -> list[dg.AssetsDefinition]:
    """Return one multi-asset for the sources of each catalog, which observes them without an engine.

    Sources that are external assets are left out, since those have events of their own.
    """
    by_catalog: dict[str, list[SourceJoint]] = {}
    for joint in project.assembly.joints:
        if isinstance(joint, SourceJoint) and not is_external(joint):
            by_catalog.setdefault(joint.catalog, []).append(joint)
    with beta_accepted():
        return [
            _observation(project, _observation_name(project, name, sources), chosen)
            for name, sources in by_catalog.items()
            if (chosen := [joint for joint in sources if joint.name in project.selected])
        ]


def _observation_name(project: RivetProject, catalog: str, sources: list[SourceJoint]) -> str:
    """Return the step's name: the catalog's; if only a part of its sources is selected, with the first of them."""
    chosen = [joint.name for joint in sources if joint.name in project.selected]
    return step_name(project.assembly, "observe", catalog, *(chosen[:1] if len(chosen) < len(sources) else []))


def _observation(project: RivetProject, name: str, sources: list[SourceJoint]) -> dg.AssetsDefinition:
    by_key = {project.key(joint.name): joint for joint in sources}

    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        runtime = Runtime(project.assembly, project.root, environment=project.environment)
        mark_run(project, context.run, context.instance)
        for key in sorted(context.selected_asset_keys):
            with rivet_failures():
                version = data_version(runtime, by_key[key])
            yield dg.ObserveResult(asset_key=key, data_version=dg.DataVersion(version))

    specs = [project.asset_spec(joint.name) for joint in sources]
    decorate = dg.multi_observable_source_asset(name=name, specs=specs, can_subset=True)
    observation: dg.AssetsDefinition = decorate(observe)
    return observation
