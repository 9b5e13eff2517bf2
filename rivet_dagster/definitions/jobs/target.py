"""Targets of jobs, schedules and sensors: joints with one partitions definition or none, and checks of sources.

The jobs over all joints: one for joints without partitions, and one for each partitions definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.group_run import reads
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import Partitions


@dataclass(frozen=True)
class JobTarget:
    """The joints that a run materializes.

    ``joints`` are in topological order; the checks of the sources ``gated`` are evaluated before them. ``partitions``
    are those of all joints that have partitions, None if none has.
    """

    joints: tuple[str, ...]
    gated: tuple[str, ...]
    partitions: Partitions | None

    def selection(self, project: RivetProject) -> dg.AssetSelection:
        """Return the target as an asset selection, with the error tables that are published with the joints."""
        judged = dg.AssetSelection.checks_for_assets(*project.keys(self.gated))
        errors = [key for name in self.joints if (key := project.errors_key(name)) is not None]
        return dg.AssetSelection.assets(*project.keys(self.joints), *errors) | judged


def find_target(project: RivetProject, text: str) -> JobTarget:
    """Return the target of a selection in Dagster's syntax, without its sources. Raises RVT-115, RVT-116."""
    return target_of(project, project.select_made(text))


def target_of(project: RivetProject, joints: Iterable[str]) -> JobTarget:
    """Return the target that materializes ``joints``, none of which is a source. Raises RVT-116."""
    wanted = set(joints)
    made = tuple(name for name in project.joints.values() if name in wanted)
    partitions = {p.keys: p for name in made if (p := project.assembly.joint(name).partitions) is not None}
    if len(partitions) > 1:
        known = ", ".join(map(str, partitions.values()))
        raise RivetError("RVT-116", f"the joints have several partitions definitions: {known}")
    return JobTarget(made, _gated_sources(project, made), next(iter(partitions.values()), None))


def _gated_sources(project: RivetProject, joints: Iterable[str]) -> tuple[str, ...]:
    by_group: dict[str, list[str]] = {}
    for name in joints:
        by_group.setdefault(project.assembly.joint(name).group, []).append(name)
    groups = {project.assembly.group(group): names for group, names in by_group.items()}
    read = {name for group, names in groups.items() for name in reads(project.assembly, group, names)}
    joints_read = (project.assembly.joint(name) for name in sorted(read))
    return tuple(
        joint.name for joint in joints_read if joint.type == SOURCE and joint.checks and joint.name in project.selected
    )


def jobs_over_everything(project: RivetProject) -> list[dg.UnresolvedAssetJobDefinition]:
    """Return the job ``all``, and ``all_daily`` and the like for joints with partitions.

    A run has one partitions definition, so each has a job of its own: several of one type are numbered in the order of
    start, end, time zone and values, as in ``all_daily_2``. Each job includes the checks of the gated sources that its
    joints read.
    """
    chosen = [joint for joint in project.assembly.joints if joint.name in project.selected]
    targets = {name: target_of(project, joints) for name, joints in _parts(chosen).items()}
    read = {name for target in targets.values() for name in target.gated}
    unread = [joint.name for joint in chosen if joint.type == SOURCE and joint.checks and joint.name not in read]
    jobs: list[dg.UnresolvedAssetJobDefinition] = []
    for name, target in targets.items():
        selection = target.selection(project)
        if not jobs:
            selection |= dg.AssetSelection.checks_for_assets(*project.keys(unread))
        description = "Every joint of the project"
        if target.partitions is not None:
            description = f"Every joint whose partitions are {target.partitions}"
        elif len(targets) > 1:
            description += " that has no partitions"
        jobs.append(dg.define_asset_job(name, selection, tags=environment_tags(project), description=description))
    return jobs


def _parts(chosen: list[CompiledJoint]) -> Mapping[str, list[str]]:
    """Return the names of the joints that can be materialized, by the name of their job."""
    by_keys: dict[object, list[CompiledJoint]] = {}
    made = [joint for joint in chosen if joint.type != SOURCE]
    for joint in sorted(made, key=lambda joint: str(joint.partitions.keys) if joint.partitions else ""):
        by_keys.setdefault(joint.partitions.keys if joint.partitions else None, []).append(joint)
    by_job: dict[str, list[CompiledJoint]] = {}
    for joints in by_keys.values():
        by_job[_name(joints[0].partitions, by_job)] = joints
    return {name: [joint.name for joint in joints] for name, joints in by_job.items()} or {"all": []}


def _name(partitions: Partitions | None, taken: Mapping[str, object]) -> str:
    if partitions is None:
        return "all"
    name = f"all_{partitions.type}"
    number = sum(other == name or other.startswith(f"{name}_") for other in taken)
    return f"{name}_{number + 1}" if number else name
