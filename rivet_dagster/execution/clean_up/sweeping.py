"""Sweeping the leftovers of dead runs in all catalogs of a project."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities.environments import HasEnvironments
from rivet_dagster.catalogs.capabilities.sweeping import DEAD_AFTER, Sweeps
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import Diagnostic, RivetError


@dataclass(frozen=True)
class Swept:
    """The removed versions, as ``catalog: table/version``, and the errors of tables that could not be swept."""

    names: tuple[str, ...]
    errors: tuple[Diagnostic, ...]

    def raise_errors(self) -> None:
        """Raise all errors as one RivetError, if there are any."""
        if self.errors:
            raise RivetError.of(self.errors)


def sweep(catalogs: Iterable[Catalog]) -> Swept:
    """Remove the versions of runs that count as dead now, and environments that are abandoned or half removed.

    An error of one table does not stop the others.
    """
    names: list[str] = []
    errors: list[RivetError] = []
    for catalog in catalogs:
        try:
            if isinstance(catalog, Sweeps):
                names += [f"{catalog.name}: {name}" for name in catalog.sweep(errors.append)]
            if isinstance(catalog, HasEnvironments):
                names += [f"{catalog.name}: environment {name}" for name in catalog.sweep_environments()]
        except RivetError as error:
            errors.append(error)
    return Swept(tuple(names), tuple(diagnostic for error in errors for diagnostic in error.diagnostics))


def sweep_patiently(catalogs: Iterable[Catalog]) -> Swept:
    """Sweep, and if any version is being built, sweep once more after a minute.

    A run that has just died counts as alive for a minute.
    """
    catalogs = tuple(catalogs)
    swept = sweep(catalogs)
    if _any_is_building(catalogs):
        time.sleep(DEAD_AFTER + 1)
        later = sweep(catalogs)
        return Swept(swept.names + later.names, later.errors)
    return swept


def _any_is_building(catalogs: Iterable[Catalog]) -> bool:
    for catalog in _sweeping(catalogs):
        with suppress(RivetError):  # the sweep has reported it
            if catalog.building():
                return True
    return False


def _sweeping(catalogs: Iterable[Catalog]) -> Iterator[Sweeps]:
    return (catalog for catalog in catalogs if isinstance(catalog, Sweeps))
