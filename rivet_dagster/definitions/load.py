"""load_definitions(): a project directory as Dagster Definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from rivet_dagster.definitions.block import block_definitions
from rivet_dagster.definitions.groups import group_assets
from rivet_dagster.definitions.io_manager import io_manager_definition
from rivet_dagster.definitions.jobs import jobs_over_everything
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources import engine_resources, executor_for
from rivet_dagster.definitions.sources import source_assets, source_checks
from rivet_dagster.definitions.translator import DagsterRivetTranslator
from rivet_dagster.execution.progress import Watch
from rivet_dagster.model.joint import SOURCE, Joint


def load_definitions(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    translator: DagsterRivetTranslator | None = None,
) -> dg.Definitions:
    """The assets, checks, resources and executor of a project, its jobs over everything, schedules and sensors.

    The jobs are ``all`` and, for joints with partitions, ``all_daily`` and the like; the schedules, sensors, automation
    conditions and freshness policies are those of the ``dagster:`` block.

    ``joints`` are added to those in files. Raises one RivetError that holds everything wrong with the project. No
    engine is started and no catalog contacted.

    >>> load_definitions("example_repo").resolve_job_def("all").name
    'all'
    """
    return build_definitions(RivetProject.load(project_dir, profile, joints=joints, translator=translator))


def build_definitions(project: RivetProject, watches: Sequence[Watch] = ()) -> dg.Definitions:
    """The Definitions of a project. ``watches`` are told of writes by the steps that run in this process."""
    assembly = project.assembly
    jobs = jobs_over_everything(project)
    block = block_definitions(project, jobs)
    groups = [group for group in assembly.fused_groups if assembly.joint(group.exit).type != SOURCE]
    own = dg.Definitions(
        assets=[*source_assets(project), *(group_assets(project, group, watches) for group in groups)],
        asset_checks=source_checks(project),
        jobs=jobs,
        resources={
            **engine_resources(project),
            assembly.dagster.io_manager_key: io_manager_definition(project),
        },
        executor=executor_for(assembly),
    )
    return dg.Definitions.merge(own, block)
