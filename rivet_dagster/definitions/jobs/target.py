"""Targets of jobs, schedules and sensors: joints with one partitions definition or none, and checks of sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
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
