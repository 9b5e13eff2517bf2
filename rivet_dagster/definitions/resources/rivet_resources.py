"""What the steps of a project and the readers of its joints need: its engines and its IO manager."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_resources
from rivet_dagster.definitions.resources.io_manager import io_manager_definition


def rivet_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """The resources that the assets of a project take, by resource key; nothing is started.

    >>> sorted(rivet_resources(RivetProject.load("example_repo")))
    ['rivet_engine_spark', 'rivet_io_manager']
    """
    return {**engine_resources(project), project.io_manager_key: io_manager_definition(project)}
