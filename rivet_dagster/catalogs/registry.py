"""The installed types of catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rivet_dagster.catalogs.capabilities.sources import HasLandingZones, ListsFiles, TellsLocations
from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import Adopts, HasErrorTables, HasTargets
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.entry_points import CATALOGS, ByType, expand_variables, plugin_class
from rivet_dagster.model.plugins import CatalogTraits
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.write_strategy import modes_of


def catalog_class(type_: str) -> type[Catalog]:
    """Return the class of a type of catalog. Raises RVT-109.

    >>> catalog_class("filesystem").__name__
    'FilesystemCatalog'
    """
    return cast("type[Catalog]", plugin_class(CATALOGS, type_, Catalog))


def open_catalog(spec: CatalogSpec, root: Path, environ: Mapping[str, str]) -> Catalog:
    """Return the catalog that a profile declares for the project in ``root``, ``${VAR}`` expanded from ``environ``.

    Raises RVT-103, RVT-104, RVT-105, RVT-107, RVT-109.
    """
    return catalog_class(spec.type)(replace(spec, options=expand_variables(spec.options, environ)), root)


def catalog_traits() -> Mapping[str, CatalogTraits]:
    """Return what the compiler needs to know about each installed type of catalog."""
    return ByType(CATALOGS, lambda type_: traits_of(catalog_class(type_)))


def traits_of(catalog: type[Catalog]) -> CatalogTraits:
    """Return what the compiler needs to know about a catalog class; most of it follows from its capabilities."""
    facts: dict[str, Any] = {"gives": catalog.gives, "error_tables": issubclass(catalog, HasErrorTables)}
    facts["other_options"] = catalog.other_options
    if issubclass(catalog, HasTargets):
        facts["strategies"] = modes_of(catalog.write_plans)
        facts["refuses_write"] = catalog.refuses_write
        facts["keeps_versions"] = catalog.keeps_versions
    facts["adopts"] = issubclass(catalog, Adopts)
    if issubclass(catalog, StagesForRuns):
        facts["in_one_commit"] = catalog.in_one_commit
    if issubclass(catalog, HasLandingZones):
        facts["refuses_landing"] = catalog.refuses_landing
    if issubclass(catalog, ListsFiles):
        facts |= {"refuses_listing": catalog.refuses_listing, "file_format": catalog.file_format}
    if issubclass(catalog, TellsLocations):
        facts |= {"written_locations": catalog.written_locations, "read_locations": catalog.read_locations}
    facts |= {"check": catalog.check, "check_table": catalog.check_table, "columns_named": catalog.columns_named}
    return CatalogTraits(options=catalog.options, **facts)
