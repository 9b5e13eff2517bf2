"""The error for damaged JSON files of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rivet_dagster.errors import RivetError


@contextmanager
def damage(file: Path, remedy: str) -> Iterator[None]:
    """Turn errors of the block, which parses the JSON in ``file``, into RVT-407 with ``remedy`` as remediation.

    >>> with damage(Path("orders.json"), "Move it away."):
    ...     {}["version"]
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-407 orders.json is damaged: KeyError('version')
        Move it away.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RivetError("RVT-407", f"{file} is damaged: {error!r}", remediation=remedy) from error
