"""The jobs over everything: one for all that has no partitions, and one for each definition of partitions."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import Partitions


def jobs_over_everything(project: RivetProject) -> list[dg.UnresolvedAssetJobDefinition]:
    """``all``, ``all_daily``, ... and ``all_daily_2`` where joints have other days: a run has partitions of one kind.

    Those of one type are numbered by start, end, time zone and values. Each takes along the checks of
    the gated sources that its joints read.
    """
    chosen = [joint for joint in project.assembly.joints if joint.name in project.selected]
    parts = _parts(chosen)
    read = {name: _sources(joints) for name, joints in parts.items()}
    unread = {joint.name for joint in chosen if joint.type == SOURCE}.difference(*read.values())
    found = []
    for name, joints in parts.items():
        sources = read[name] | (unread if name == next(iter(parts)) else set())
        gated = [j for j in chosen if j.name in sources and j.checks]
        keys, judged = (project.keys(joint.name for joint in some) for some in (joints, gated))
        selection = dg.AssetSelection.assets(*keys) | dg.AssetSelection.checks_for_assets(*judged)
        partitions = joints[0].partitions if joints else None
        description = f"Every joint whose partitions are {partitions}" if partitions else "Every joint of the project"
        if partitions is None and len(parts) > 1:
            description += " that has no partitions"
        found.append(dg.define_asset_job(name, selection, description=description))
    return found


def _parts(chosen: list[CompiledJoint]) -> Mapping[str, list[CompiledJoint]]:
    """The joints that are made, by the name of their job."""
    by_keys: dict[object, list[CompiledJoint]] = {}
    made = [joint for joint in chosen if joint.type != SOURCE]
    for joint in sorted(made, key=lambda joint: str(joint.partitions.keys) if joint.partitions else ""):
        by_keys.setdefault(joint.partitions.keys if joint.partitions else None, []).append(joint)
    found: dict[str, list[CompiledJoint]] = {}
    for joints in by_keys.values():
        found[_name(joints[0].partitions, found)] = joints
    return found or {"all": []}


def _name(partitions: Partitions | None, taken: Mapping[str, object]) -> str:
    if partitions is None:
        return "all"
    name = f"all_{partitions.type}"
    number = sum(other == name or other.startswith(f"{name}_") for other in taken)
    return f"{name}_{number + 1}" if number else name


def _sources(joints: list[CompiledJoint]) -> set[str]:
    """The sources that the joints, or their checks, read."""
    names = {name for joint in joints for name in joint.upstream}
    return names | {name for joint in joints for check in joint.checks for name in check.reads}
