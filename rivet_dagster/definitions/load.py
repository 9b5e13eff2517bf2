"""load_definitions(): a project directory as Dagster Definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.collector import without_collector
from rivet_dagster.definitions.assets.rivet_assets import Body, StepSettings, group_body, project_assets
from rivet_dagster.definitions.block import block_definitions
from rivet_dagster.definitions.jobs import jobs_over_everything
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.io_manager import rivet_resources
from rivet_dagster.definitions.resources.rivet_executor import rivet_executor
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.execution.progress import ProgressListener
from rivet_dagster.model.joint import Joint

GENERATED: Any = object()
"""The default of ``executor``: the executor that follows from the engines of the profile."""


def load_definitions(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    translator: DagsterRivetTranslator | None = None,
    executor: dg.ExecutorDefinition | None = GENERATED,
    introspect: bool = False,
) -> dg.Definitions:
    """Return the assets, checks, resources and executor of a project, its jobs over everything, schedules and sensors.

    The jobs are ``all`` and, for joints with partitions, ``all_daily`` and the like; the schedules, sensors, automation
    conditions and freshness policies are those of the ``dagster:`` block.

    ``joints`` are added to those in files. ``executor`` replaces the default one, which runs a project on one Spark of
    this machine in threads of one process, others in processes, within the ``concurrency_limit`` of each engine;
    with None there is no executor, for merging with Definitions that have one. No engine is started. No catalog is
    contacted, unless ``introspect`` is true: then catalogs are asked for the columns of sources that declare none, for
    at most 10 seconds, and a failure is a warning of the plan. Raises one RivetError with all errors of the project.

    >>> load_definitions("example_repo").resolve_job_def("all").name
    'all'
    """
    with without_collector():
        project = RivetProject.load(project_dir, profile, joints=joints, translator=translator, introspect=introspect)
        return build_definitions(project, executor=executor)


def build_definitions(
    project: RivetProject,
    listeners: Sequence[ProgressListener] = (),
    *,
    body: Body = group_body,
    settings: StepSettings | None = None,
    executor: dg.ExecutorDefinition | None = GENERATED,
    automation: bool = True,
) -> dg.Definitions:
    """Return the Definitions of a project; steps in this process tell ``listeners`` phases and the progress of writes.

    With ``automation`` they include its jobs, and the schedules and sensors of the ``dagster:`` block.
    """
    # First, since it raises all errors of the block.
    triggers = _automation(project) if automation else dg.Definitions()
    steps = dg.Definitions(
        assets=project_assets(project, body, settings, listeners),
        resources=rivet_resources(project),
        executor=rivet_executor(project) if executor is GENERATED else executor,
    )
    return dg.Definitions.merge(steps, triggers)


def _automation(project: RivetProject) -> dg.Definitions:
    jobs = jobs_over_everything(project)
    return dg.Definitions.merge(dg.Definitions(jobs=jobs), block_definitions(project, jobs))
