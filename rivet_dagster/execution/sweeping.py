"""Removing what dead runs left in all catalogs of a project."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rivet_dagster.catalogs.contract import DEAD_AFTER, Catalog


def sweep(catalogs: Iterable[Catalog]) -> tuple[str, ...]:
    """Remove what is known to be dead now, and name it as ``catalog: table/version``."""
    return tuple(f"{catalog.name}: {name}" for catalog in catalogs for name in catalog.sweep())


def sweep_patiently(catalogs: Iterable[Catalog]) -> tuple[str, ...]:
    """The same, and where something is being built wait until its run has shown that it lives, or has died.

    A run that has just died looks alive for a minute.
    """
    catalogs = tuple(catalogs)
    swept = sweep(catalogs)
    if any(catalog.building() for catalog in catalogs):
        time.sleep(DEAD_AFTER + 1)
        swept += sweep(catalogs)
    return swept
