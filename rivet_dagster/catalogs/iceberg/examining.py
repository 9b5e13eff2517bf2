"""Findings of whether an Iceberg catalog can be reached, for the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.catalog import IcebergCatalog

_NAMES = 5
"""How many leftovers are named in a finding."""


def examine(catalog: IcebergCatalog, publishes: bool) -> Iterator[Finding]:
    """Yield findings of reaching the catalog and, if a project ``publishes`` there, of what runs have staged."""
    subject = f"catalog {catalog.name}"
    try:
        staged = catalog.building() if publishes else ()
        if not publishes:
            catalog.namespaces()
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, "answers")
    if staged:
        named = ", ".join(staged[:_NAMES]) + (", ..." if len(staged) > _NAMES else "")
        text = f"{len(staged)} branch{'' if len(staged) == 1 else 'es'} of runs, alive or dead: {named}"
        yield doubtful(subject, text, "`rivet-dagster sweep` removes those of dead runs, and so does the next write.")
