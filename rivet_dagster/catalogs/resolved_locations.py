"""The locations of a project's tables on this machine: with links followed and variables expanded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.locations import TellsLocations
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.location import Location, Resolved
from rivet_dagster.model.profile import expand_variables
from rivet_dagster.model.project import Project

_Catalog = tuple[type[TellsLocations], Mapping[str, Any]]


def resolved_locations(project: Project, root: Path, environ: Mapping[str, str]) -> Resolved:
    """Return the locations of all tables that joints read or write, or may be stored as, where they can be determined.

    No table is opened and no catalog is contacted.
    """
    catalogs = dict(_resolved(project, root, environ))
    locations: dict[tuple[str, str], tuple[Location, ...]] = {}
    for joint in project.joints:
        catalog = joint.catalog if joint.catalog is not None else project.profile.workspace
        own = str(joint.table) if joint.catalog is not None else joint.name
        errors = joint.on_error.error_table(own) if joint.on_error is not None else None
        for table in (own, *([errors.table] if errors is not None else [])):
            if catalog in catalogs and "\0" not in table:
                class_, options = catalogs[catalog]
                is_read = joint.type == SOURCE
                at = (
                    class_.read_locations(options, table, True) if is_read else class_.written_locations(options, table)
                )
                locations[catalog, table] = (*locations.get((catalog, table), ()), *at)
    return locations


def _resolved(project: Project, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, _Catalog]]:
    for spec in project.profile.catalogs:
        try:
            class_, options = catalog_class(spec.type), expand_variables(spec.options, environ)
        except RivetError:
            continue  # an error of the profile, which compiling reports
        if issubclass(class_, TellsLocations) and not class_.check(options):
            yield spec.name, (class_, class_.resolved(options, root))
