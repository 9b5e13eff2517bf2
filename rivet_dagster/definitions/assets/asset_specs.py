"""The joints of a project as asset specs, for assets that something else materializes."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.definitions.project import RivetProject


def build_rivet_asset_specs(
    project: RivetProject, select: str | None = None, exclude: str | None = None
) -> list[dg.AssetSpec]:
    """Return the specs of the selected joints, including sources, in topological order.

    ``select`` and ``exclude`` are selections in Dagster's syntax. The specs name no IO manager: given to
    Definitions, they are external assets. Raises RVT-115.

    >>> project = RivetProject.load("example_repo")
    >>> [spec.key.to_user_string() for spec in build_rivet_asset_specs(project, "kind:python")]
    ['route_bad_days']
    """
    part = project.part(select, exclude)
    return [part.spec(name) for name in part.names]
