"""The resources of a project for its steps and the readers of its joints: its engines and its IO manager."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_resources
from rivet_dagster.definitions.resources.io_manager import io_manager_definition


def rivet_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """Return the resources that the assets of a project require, by resource key; nothing is started.

    >>> sorted(rivet_resources(RivetProject.load("example_repo")))
    ['rivet_engine_spark', 'rivet_io_manager']
    """
    return {**engine_resources(project), project.io_manager_key: io_manager_definition(project)}
