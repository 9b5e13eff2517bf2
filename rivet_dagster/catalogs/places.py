"""Where the tables of a project are on this machine: behind links, and with the values of variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.locations import TellsLocations
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import SINK, SOURCE
from rivet_dagster.model.location import Location, Resolved
from rivet_dagster.model.project import Project
from rivet_dagster.project.environment import expand

_Catalog = tuple[type[TellsLocations], Mapping[str, Any]]


def resolved_places(project: Project, root: Path, environ: Mapping[str, str]) -> Resolved:
    """The locations of all tables that joints read or write, or may be stored as; none of those that nobody can tell.

    No table is opened for it, and no catalog contacted.
    """
    catalogs = dict(_resolved(project, root, environ))
    places: dict[tuple[str, str], tuple[Location, ...]] = {}
    for joint in project.joints:
        own = joint.type in (SOURCE, SINK)
        catalog, table = (str(joint.catalog), str(joint.table)) if own else (project.profile.workspace, joint.name)
        if catalog in catalogs and "\0" not in table:
            found, options = catalogs[catalog]
            is_read = joint.type == SOURCE
            told = found.read_places(options, table, True) if is_read else found.written_places(options, table)
            places[catalog, table] = (*places.get((catalog, table), ()), *told)
    return places


def _resolved(project: Project, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, _Catalog]]:
    for spec in project.profile.catalogs:
        try:
            found, options = catalog_class(spec.type), expand(spec.options, environ)
        except RivetError:
            continue  # an error of the profile, which compiling tells
        if issubclass(found, TellsLocations) and not found.check(options):
            yield spec.name, (found, found.resolved(options, root))
