"""Whether the profile's catalogs and engines are of installed types, with options that those know."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.errors import nearest
from rivet_dagster.model.origin import Origin
from rivet_dagster.model.plugins import CatalogTraits, EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile


def check_plugins(profile: Profile, plugins: Plugins, found: Diagnostics) -> None:
    """RVT-109 for a type that is not installed, RVT-103 for an option it does not know, RVT-104 for a value."""
    for catalog in profile.catalogs:
        _check("catalog", catalog, plugins.catalogs, profile.origin, found)
    for engine in profile.engines:
        _check("engine", engine, plugins.engines, profile.origin, found)


def _check(
    kind: str,
    spec: CatalogSpec | EngineSpec,
    installed: Mapping[str, CatalogTraits] | Mapping[str, EngineTraits],
    origin: Origin,
    found: Diagnostics,
) -> None:
    traits = installed.get(spec.type)
    if traits is None:
        known = nearest(spec.type, installed)
        message = f"{kind} '{spec.name}' is of type '{spec.type}', which is not installed{known}"
        found.errors.append(origin.diagnostic("RVT-109", message, key=spec.name))
        return
    for key in sorted(set(spec.options) - traits.options):
        message = f"{kind} '{spec.name}' has the unknown option '{key}'{nearest(key, traits.options)}"
        found.errors.append(origin.diagnostic("RVT-103", message, key=spec.name))
    for key, sentence in traits.check(spec.options).items():
        message = f"{kind} '{spec.name}': `{key}` {sentence}"
        found.errors.append(origin.diagnostic("RVT-104", message, key=spec.name))
