"""Sweeps: which of the versions that are not published may be removed, since their runs have died.

A storage implements ``UnpublishedVersion``, and ``Leftover`` where each is removed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rivet_dagster.catalogs.versions.heartbeat import Heartbeat
from rivet_dagster.errors import RivetError


class UnpublishedVersion(Protocol):
    """A version that a run builds or has staged."""

    @property
    def name(self) -> str:
        """The name that a sweep tells."""

    @property
    def heartbeat(self) -> Heartbeat | None:
        """The heartbeat of the run, which others that it has staged may share; None if it has sent none yet."""

    @property
    def is_withheld(self) -> bool:
        """Whether it stays for a person to publish or remove."""


class Leftover(UnpublishedVersion, Protocol):
    """Something that a run has staged, which a sweep removes by itself."""

    def remove(self) -> bool:
        """Remove it and its heartbeat, and return True; return False if it must stay for now."""


V = TypeVar("V", bound=UnpublishedVersion)


def find_dead(versions: Iterable[V], alive: MutableMapping[str, bool] | None = None) -> Iterator[V]:
    """Yield those that a sweep may remove: neither withheld, nor of a run that is alive.

    ``alive`` tells, by path, which heartbeats were found alive or dead: a removal ends a heartbeat that others share.
    """
    known = {} if alive is None else alive
    for version in versions:
        if version.is_withheld:
            continue
        heartbeat = version.heartbeat
        if heartbeat is None:
            yield version
            continue
        if heartbeat.path not in known:
            known[heartbeat.path] = heartbeat.is_alive()
        if not known[heartbeat.path]:
            yield version


def sweep_dead(leftovers: Iterable[Leftover], alive: MutableMapping[str, bool] | None = None) -> Iterator[str]:
    """Remove those that ``find_dead`` yields, and yield the name of each that is removed."""
    for leftover in find_dead(leftovers, alive):
        if leftover.remove():
            yield leftover.name


def end_dead(heartbeats: Iterable[Heartbeat]) -> None:
    """Remove the heartbeats of dead runs that have staged nothing, or whose version is not theirs any more."""
    for heartbeat in heartbeats:
        if not heartbeat.is_alive():
            heartbeat.end()


@contextmanager
def telling_failures(failed: Callable[[RivetError], None] | None) -> Iterator[Callable[[RivetError], None]]:
    """Yield a function that takes the error of a table that cannot be swept, which does not stop the others.

    It is ``failed``; without that, all errors are raised together at the end of the block.
    """
    errors: list[RivetError] = []
    yield failed or errors.append
    if errors:
        raise RivetError.of(diagnostic for error in errors for diagnostic in error.diagnostics)
