"""Capabilities that only some catalogs have, one a class: a catalog has one by deriving from its class."""

from __future__ import annotations

from typing import TypeVar

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError

C = TypeVar("C")


def capable(catalog: Catalog, capability: type[C]) -> C:
    """Return ``catalog`` as one that has a ``capability``. Raises RVT-413.

    The first line of a capability's docstring says what such a catalog does.
    """
    if isinstance(catalog, capability):
        return catalog
    what = (capability.__doc__ or capability.__name__).partition("\n")[0].rstrip(".")
    raise RivetError("RVT-413", f"the catalog '{catalog.name}', of the type {catalog.type}, is none that {what}")
