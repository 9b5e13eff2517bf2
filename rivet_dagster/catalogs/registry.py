"""The installed types of catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.entry_points import CATALOGS, plugin_class, plugins
from rivet_dagster.model.plugins import CatalogTraits
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.project.environment import expand


def catalog_class(type_: str) -> type[Catalog]:
    """The class of a type of catalog. Raises RVT-109.

    >>> catalog_class("filesystem").__name__
    'FilesystemCatalog'
    """
    return cast("type[Catalog]", plugin_class(CATALOGS, type_))


def open_catalog(spec: CatalogSpec, root: Path, environ: Mapping[str, str]) -> Catalog:
    """The catalog that a profile declares for the project in ``root``, its ``${VAR}`` taken from ``environ``.

    Raises RVT-103, RVT-104, RVT-105, RVT-107, RVT-109.
    """
    return catalog_class(spec.type)(replace(spec, options=expand(spec.options, environ)), root)


def catalog_traits() -> dict[str, CatalogTraits]:
    """What the compiler needs to know of every installed type."""
    return {type_: traits_of(catalog_class(type_)) for type_ in plugins(CATALOGS)}


def traits_of(found: type[Catalog]) -> CatalogTraits:
    """Return the facts about a class of catalogs that the compiler needs."""
    return CatalogTraits(
        found.strategies,
        found.options,
        found.check,
        refuses_landing=found.refuses_landing,
        refuses_listing=found.refuses_listing,
        written_places=found.written_places,
        read_places=found.read_places,
        check_table=found.check_table,
    )
