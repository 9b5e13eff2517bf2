"""A RivetError as Dagster's Failure: its text first, its parts as metadata, no stack above them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rivet_dagster.errors import RivetError

DIAGNOSTICS = "rivet/diagnostics"


@contextmanager
def rivet_failures() -> Iterator[None]:
    """Turn a RivetError of the block into a Failure that carries its diagnostics."""
    try:
        yield
    except RivetError as error:
        raise failure(error) from error


def failure(error: RivetError) -> dg.Failure:
    """The Failure of a step that met ``error``; a retry would meet it again."""
    records = [diagnostic.to_dict() for diagnostic in error.diagnostics]
    return dg.Failure(str(error), metadata={DIAGNOSTICS: dg.MetadataValue.json(records)}, allow_retries=False)
