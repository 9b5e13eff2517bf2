"""Validation of the profile's catalogs and engines: installed types, known options, and no literal secrets."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.context import DeclaredContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.entry_points import is_unexpanded, unknown_options
from rivet_dagster.errors import nearest
from rivet_dagster.model.inputs import landing_options
from rivet_dagster.model.plugins import CatalogTraits, EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.step_options import step_options
from rivet_dagster.model.target import PUBLISH
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.secrets.options import literal_secrets

_OWN_KEYS = {
    "catalog": frozenset({"type"}),
    "engine": frozenset({"name", "type", "catalogs", "concurrency_limit", "options"}),
}
"""The keys that every type has."""


def check_plugins(profile: Profile, plugins: Plugins, diagnostics: Diagnostics) -> None:
    """Report RVT-109 for a type that is not installed; RVT-103, 104 and 105 for unknown, wrong and missing options.

    Warn with RVT-125 of each secret that is written literally.
    """
    for catalog in profile.catalogs:
        origin = profile.catalog_origins.get(catalog.name, profile.origin)
        _check("catalog", catalog, plugins.catalogs, origin, diagnostics)
        if is_unexpanded(catalog.options.get(PUBLISH)):
            message = f"catalog '{catalog.name}': `{PUBLISH}` must be written out: the plan depends on it"
            diagnostics.errors.append(origin.diagnostic("RVT-104", message, key=PUBLISH))
    for engine in profile.engines:
        origin = profile.engine_origins.get(engine.name, profile.origin)
        _check("engine", engine, plugins.engines, origin, diagnostics)


def check_declared_tables(context: DeclaredContext) -> None:
    """Have the catalogs validate the tables that joints read or publish, and the workspace's ability to hold tables."""
    graph, profile = context.graph, context.profile
    plugins, diagnostics = context.plugins, context.diagnostics
    for joint in graph.joints.values():
        spec = profile.catalog(joint.catalog) if joint.catalog is not None else None
        if spec is not None and spec.type in plugins.catalogs:
            own = landing_options(step_options(joint.options)[1])[1]
            table = str(joint.table)
            for error in plugins.catalogs[spec.type].check_table(spec.options, table, own, joint.publishes):
                diagnostics.error(joint, error.code, error.message, error.key, error.remediation)
    spec = profile.catalog(profile.workspace)
    if spec is not None and spec.type in plugins.catalogs:
        for error in plugins.catalogs[spec.type].check_table(spec.options, "joint", {}, True):
            message = f"`workspace`: nothing can be stored in '{spec.name}': {error.message}"
            remedy = "Name another catalog of the profile as its `workspace`, or none."
            diagnostics.errors.append(
                profile.origin.diagnostic(error.code, message, key="workspace", remediation=remedy)
            )


def _check(
    kind: str,
    spec: CatalogSpec | EngineSpec,
    installed: Mapping[str, CatalogTraits] | Mapping[str, EngineTraits],
    origin: Origin,
    diagnostics: Diagnostics,
) -> None:
    for path, _ in literal_secrets(spec.options):
        message = f"{kind} '{spec.name}': `{'.'.join(path)}` holds a secret that whoever reads the file sees"
        diagnostics.warnings.append(origin.diagnostic("RVT-125", message, key=path[0]))
    traits = installed.get(spec.type)
    if traits is None:
        known = nearest(spec.type, installed)
        message = f"{kind} '{spec.name}' is of type '{spec.type}', which is not installed{known}"
        diagnostics.errors.append(origin.diagnostic("RVT-109", message, key="type"))
        return
    for key in unknown_options(spec.options, traits.options, traits.other_options):
        known = nearest(key, traits.options | _OWN_KEYS[kind])
        message = f"{kind} '{spec.name}' has the unknown option '{key}'{known}"
        diagnostics.errors.append(origin.diagnostic("RVT-103", message, key=key))
    for key, sentence in traits.check(spec.options).items():
        message = f"{kind} '{spec.name}': `{key}` {sentence}"
        diagnostics.errors.append(origin.diagnostic("RVT-104" if key in spec.options else "RVT-105", message, key=key))
