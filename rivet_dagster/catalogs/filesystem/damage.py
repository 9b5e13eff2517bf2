"""Files of ours that somebody damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rivet_dagster.errors import RivetError


@contextmanager
def damage(file: Path, remedy: str) -> Iterator[None]:
    """Turn what goes wrong in the block, which reads JSON of ours from ``file``, into RVT-407 with this ``remedy``.

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
