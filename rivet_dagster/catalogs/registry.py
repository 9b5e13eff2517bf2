"""The installed types of catalog."""

from __future__ import annotations

from typing import cast

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.entry_points import CATALOGS, plugin_class, plugins
from rivet_dagster.model.plugins import CatalogTraits


def catalog_class(type_: str) -> type[Catalog]:
    """The class of a type of catalog. Raises RVT-109.

    >>> catalog_class("filesystem").__name__
    'FilesystemCatalog'
    """
    return cast("type[Catalog]", plugin_class(CATALOGS, type_))


def catalog_traits() -> dict[str, CatalogTraits]:
    """What the compiler needs to know of every installed type."""
    classes = {type_: catalog_class(type_) for type_ in plugins(CATALOGS)}
    return {type_: CatalogTraits(found.strategies, found.options, found.check) for type_, found in classes.items()}
