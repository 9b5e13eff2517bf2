"""A profile: the catalogs, engines and defaults that differ between environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rivet_dagster.model.text_lines import Origin

WORKSPACE = "workspace"
"""The name of the built-in catalog that stores intermediate joints, unless the profile names another."""


@dataclass(frozen=True)
class CatalogSpec:
    """A catalog as declared; ``options`` keep their ``${VAR}`` unexpanded."""

    name: str
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineSpec:
    """An engine as declared; ``options`` keep their ``${VAR}`` unexpanded.

    ``concurrency_limit`` is how many of its groups run at once; None leaves it to the plugin.
    """

    name: str
    type: str
    catalogs: tuple[str, ...] = ()
    concurrency_limit: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """One environment of profiles.yaml; ``workspace`` is the catalog that stores intermediate joints.

    ``row_values`` is the default for joints that do not say whether Dagster may store values of their rows.
    ``variables`` are those of templates, with unexpanded texts.
    ``catalog_origins`` and ``engine_origins`` are the declarations' locations by name, which are not part of the plan.
    """

    name: str
    catalogs: tuple[CatalogSpec, ...]
    engines: tuple[EngineSpec, ...]
    default_engine: str | None
    workspace: str = WORKSPACE
    row_values: bool = True
    origin: Origin = Origin()
    variables: Mapping[str, Any] = field(default_factory=dict)
    catalog_origins: Mapping[str, Origin] = field(default_factory=dict)
    engine_origins: Mapping[str, Origin] = field(default_factory=dict)

    def catalog(self, name: str) -> CatalogSpec | None:
        """Return the catalog of that name, None where there is none."""
        return self._catalogs.get(name)

    def engine(self, name: str) -> EngineSpec | None:
        """Return the engine of that name, None where there is none."""
        return self._engines.get(name)

    @cached_property
    def _catalogs(self) -> dict[str, CatalogSpec]:
        return {spec.name: spec for spec in reversed(self.catalogs)}

    @cached_property
    def _engines(self) -> dict[str, EngineSpec]:
        return {spec.name: spec for spec in reversed(self.engines)}
