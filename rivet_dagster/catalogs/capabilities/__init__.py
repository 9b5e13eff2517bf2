"""Capabilities that only some catalogs have, one class each: a catalog has a capability by deriving from its class."""

from __future__ import annotations

from typing import TypeVar

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError

C = TypeVar("C")


def capable(catalog: Catalog, capability: type[C]) -> C:
    """Return ``catalog``, typed as one that has ``capability``. Raises RVT-413 if it has not.

    The first line of a capability's docstring says what such a catalog does.
    """
    if isinstance(catalog, capability):
        return catalog
    ability = (capability.__doc__ or capability.__name__).partition("\n")[0].rstrip(".")
    raise RivetError("RVT-413", f"the catalog '{catalog.name}', of the type {catalog.type}, is none that {ability}")
