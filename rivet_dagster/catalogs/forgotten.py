"""The error of a table of which it is not known any more what its rows were made from."""

from __future__ import annotations

from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published


def forgotten(published: Published) -> RivetError:
    """Return RVT-420, which names the expired version that another engine had made."""
    return RivetError(
        "RVT-420",
        f"what the rows of '{published.table}' were made from is not known any more: other engines have changed it, "
        f"and removed the snapshot {published.unknown_before}, which may have been a rollback",
    )
