"""Where runs read, write and compute: the profile's variables, catalogs and engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, in_order
from rivet_dagster.model.joint import SINK
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.project.environment import expand, variables_in


def variables(profile: Profile) -> Iterator[Finding]:
    """The ``${VAR}`` of catalogs and engines, without their values; a profile is not read where one is not set."""
    names = variables_in([*(one.options for one in profile.catalogs), *(one.options for one in profile.engines)])
    if names:
        yield in_order("variables", f"set: {', '.join(names)}")


def catalogs(project: Project, root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """How it stands with each catalog that the joints name, and with the workspace, where any group may store rows."""
    published = {joint.catalog for joint in project.joints if joint.type == SINK} | {project.profile.workspace}
    used = published | {joint.catalog for joint in project.joints}

    def examined(spec: CatalogSpec) -> Iterable[Finding]:
        return open_catalog(spec, root, environ).examine(spec.name in published)

    for spec in project.profile.catalogs:
        if spec.name in used:
            yield from _findings(f"catalog {spec.name}", partial(examined, spec))


def engines(profile: Profile, environ: Mapping[str, str]) -> Iterator[Finding]:
    """How it stands with each engine."""

    def examined(spec: EngineSpec) -> Iterable[Finding]:
        return engine_class(spec.type)(replace(spec, options=expand(spec.options, environ))).examine()

    for spec in profile.engines:
        yield from _findings(f"engine {spec.name}", partial(examined, spec))


def _findings(subject: str, examine: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What ``examine`` finds, or how it fails."""
    try:
        yield from examine()
    except RivetError as error:
        yield from broken(subject, error)
