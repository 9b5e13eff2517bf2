"""The error of a publication of which nobody can tell whether it has happened."""

from __future__ import annotations

from rivet_dagster.errors import RivetError


def unknown_outcome(tables: str, identity: str, error: Exception) -> RivetError:
    """Return RVT-419 for a publication under ``identity`` whose commit failed by ``error``."""
    message = f"it is not known whether {tables} has been published under '{identity}': {error}"
    return RivetError("RVT-419", message)
