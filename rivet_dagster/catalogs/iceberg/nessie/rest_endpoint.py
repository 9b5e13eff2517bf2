"""Nessie as a server of Iceberg's own REST protocol, which is for sources alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_OF_NESSIE = "nessie.is-nessie-catalog"
"""The setting by which Nessie tells clients of a REST catalog what it is."""


def refuse_nessie(catalog: Catalog) -> None:
    """Raise RVT-413 for a REST catalog of Nessie, which keeps no branches of a table in that protocol.

    What a run stages on a branch would be current at once.
    """
    if str(catalog.properties.get(_OF_NESSIE, "")).lower() == "true":
        message = (
            f"the server of the REST catalog '{catalog.name}' is Nessie, whose Iceberg REST endpoint keeps no branches "
            "of a table: readers would see rows before they are published"
        )
        remedy = "Use `catalog: nessie` with a `uri` that ends with /api/v2, and a `warehouse`."
        raise RivetError("RVT-413", message, remediation=remedy)
