"""Findings of whether an Iceberg catalog can be reached, for the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_NAMES = 5
"""The number of leftovers that a finding names."""


def examine(subject: str, staged: Callable[[], Sequence[str]]) -> Iterator[Finding]:
    """Yield findings of reaching a catalog by ``staged``, which returns the names of what runs have staged there."""
    try:
        names = staged()
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, "answers")
    if names:
        shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
        text = f"{len(names)} staged version{'' if len(names) == 1 else 's'} of runs, alive or dead: {shown}"
        yield doubtful(subject, text, "`rivet-dagster sweep` removes those of dead runs, and so does the next write.")
