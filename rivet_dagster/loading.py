"""Compile a directory: read its files, load its plugins and run the compiler."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import TellsLocations
from rivet_dagster.catalogs.introspection import introspection, recall_introspection
from rivet_dagster.catalogs.registry import catalog_class, catalog_traits
from rivet_dagster.collector import without_collector
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.second_process import second_process
from rivet_dagster.compiler.selections import Select
from rivet_dagster.engines.chosen import on_one_engine
from rivet_dagster.engines.registry import engine_traits
from rivet_dagster.entry_points import expand_variables
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.project import DagsterSettings, Project
from rivet_dagster.model.schema import Introspection
from rivet_dagster.model.target import Location, Resolved
from rivet_dagster.project.cache_file import read_cache, write_cache
from rivet_dagster.project.load import read_project


def compile_directory(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    environ: Mapping[str, str] | None = None,
    introspect: bool = False,
    recall: bool = False,
    variables: Mapping[str, Any] | None = None,
    engine: str | None = None,
    only: Collection[str] | None = None,
    select: Select | None = None,
) -> CompiledAssembly:
    """Compile the project in ``project_dir`` and return its plan; errors in joints are in the plan's ``errors``.

    ``profile`` defaults to RIVET_PROFILE, else ``default``; ``joints`` are added to those declared in files. With
    ``introspect`` the catalogs are asked for the columns of sources. With ``recall`` a source whose columns are not
    known now has the columns of its last introspection; errors about these are warnings, as the table may have changed.
    ``variables`` of templates win over those that rivet.yaml and the profile declare. ``engine`` names the engine that
    all joints are on, whatever they say; ``only`` the joints that are compiled, of all that there are. With ``select``,
    which resolves asset selections, those of the ``dagster:`` block are judged, too.
    Raises RivetError where the manifest or the profile cannot be used, except for the ``dagster:`` block, whose errors
    are in the plan with those of the joints. Any other exception is raised as RVT-599.

    The results of parsing are cached in ``.rivet/cache``, so that only changed files and queries are parsed next time.
    """
    root = Path(project_dir)
    with without_collector(), _defects():
        cache = read_cache(root)
        with second_process(root, cache) as second:
            project = read_project(root, profile, environ, joints, cache, variables, second.read)
            if engine is not None:
                project = on_one_engine(project, engine)
            if only is not None:
                joints = tuple(joint for joint in project.joints if joint.name in only)
                project = replace(project, joints=joints, dagster=DagsterSettings())
            environ = os.environ if environ is None else environ
            introspected = introspection(project, root, environ, cache) if introspect else Introspection()
            earlier = recall_introspection(project, cache)  # even without `recall`: reading it keeps it in the cache
            if recall:
                introspected = introspected.with_earlier(earlier)
            second.share_queries(project, introspected)
            locations = resolved_locations(project, root, environ)
            plugins = Plugins(catalog_traits(), engine_traits())
            plan = compile_project(project, plugins, cache, introspected, locations, select)
        write_cache(root, cache)
    return plan


@contextmanager
def _defects() -> Iterator[None]:
    """Raise any other exception as a RivetError: the only one that is shown readably while definitions are loaded."""
    try:
        yield
    except RivetError:
        raise
    except Exception as error:
        raise RivetError("RVT-599", f"{type(error).__name__}: {error}") from error


_Catalog = tuple[type[TellsLocations], Mapping[str, Any]]


def resolved_locations(project: Project, root: Path, environ: Mapping[str, str]) -> Resolved:
    """Return the locations of all tables that joints read or write, or may be stored as, where they can be determined.

    No table is opened and no catalog is contacted.
    """
    catalogs = dict(_resolved(project, root, environ))
    locations: dict[tuple[str, str], tuple[Location, ...]] = {}
    for joint in project.joints:
        catalog = joint.catalog if joint.catalog is not None else project.profile.workspace
        name = str(joint.table) if joint.catalog is not None else joint.name
        errors = joint.on_error.error_table(name) if joint.on_error is not None else None
        for table in (name, *([errors.table] if errors is not None else [])):
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
