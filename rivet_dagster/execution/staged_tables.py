"""The tables that a run has staged, and the versions that its steps read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published


@dataclass(frozen=True)
class StagedTable:
    """The table of a ``joint``, of which a run has staged a ``version`` under ``identity``."""

    joint: str
    catalog: str
    table: str
    version: str
    identity: str


StagedBy = Callable[[str], StagedTable | None]
"""Returns what a run has staged for a joint; None if the run has not materialized it."""


def version_of(catalog: Catalog, staged: StagedTable) -> Published | None:
    """Return the version that a run has staged; if it has been published meanwhile, the current one.

    Raises RVT-418 if it has been swept.
    """
    stages = capable(catalog, StagesForRuns)
    if is_published(catalog, staged):
        return stages.current(staged.table)
    version = stages.staged_by(staged.table, staged.identity)
    if version is None:
        raise swept(staged)
    return version


def is_published(catalog: Catalog, staged: StagedTable) -> bool:
    """Return whether what a run has staged has been published, even if later versions followed."""
    return capable(catalog, StagesForRuns).published_by(staged.table, staged.identity) is not None


def swept(staged: StagedTable) -> RivetError:
    """Return RVT-418 for a table whose staged version does not exist any more."""
    message = f"the rows that its run staged for {staged.catalog}.{staged.table} ({staged.version}) have been swept"
    return RivetError("RVT-418", message, joint=staged.joint)
