"""Heartbeats: a time in storage beside a version that a run builds, without which, after a minute, it may be swept.

Sweeps remove versions that are not published and whose runs have died. A storage implements ``UnpublishedVersion``, and
``Leftover`` where each is removed by itself.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rivet_dagster.errors import HeartbeatLost, RivetError

DEAD_AFTER = 60.0
"""Seconds without a heartbeat after which the run that builds a version counts as dead."""

SECONDS = 10.0
"""Between two heartbeats."""

_LOG = logging.getLogger(__name__)


class Heartbeat(ABC):
    """The heartbeat of a run that builds a version. Times are in seconds since 1970, by the clock of ``now``.

    A storage implements ``path``, ``builds``, ``last``, ``write``, ``now`` and ``end``, which raise OSError.
    """

    @property
    @abstractmethod
    def path(self) -> str:
        """The path or URI of what is stored; heartbeats of one path are the same."""

    @property
    @abstractmethod
    def builds(self) -> str:
        """The version that the run builds, as the subject of an error."""

    @abstractmethod
    def last(self) -> float | None:
        """Return the time of the last heartbeat; None if there is none."""

    @abstractmethod
    def write(self, time: float) -> None:
        """Store the time of a heartbeat, whether there was one before or not."""

    @abstractmethod
    def now(self) -> float:
        """Return the time by the clock that all who read and write the heartbeat share."""

    @abstractmethod
    def end(self) -> None:
        """Remove the heartbeat, if there is one: what the run builds has been published or removed."""

    def begin(self) -> None:
        """Send the first heartbeat."""
        self.write(self.now())

    def beat(self, since: float | None = None) -> None:
        """Send a heartbeat. Raises RVT-406 as ``require`` does, and for good: no later one revives the version.

        The caller may have waited for a lock from the time ``since``.
        """
        try:
            self.require(since)
        except HeartbeatLost:
            self.end()
            raise
        self.begin()

    def extend(self, seconds: float) -> None:
        """Have it last for ``seconds`` longer than a heartbeat does, and no shorter than it did."""
        if not self.renew(seconds):
            self.write(self.now() + seconds)

    def renew(self, seconds: float) -> bool:
        """Do what ``extend`` does if there is a heartbeat, and return whether there is."""
        last = self.last()
        if last is not None:
            self.write(max(self.now() + seconds, last))
        return last is not None

    def require(self, at: float | None = None) -> None:
        """Raise RVT-406 if the last one was too old at a time, or a sweep has removed it: the run counts as dead."""
        last = self.last()
        if last is None:
            raise self._lost("has been swept away")
        silent = (self.now() if at is None else at) - last
        if silent > DEAD_AFTER:
            raise self._lost(f"gave no sign of life for {silent:.0f} s")

    @contextmanager
    def required(self) -> Iterator[None]:
        """Raise RVT-406 if a sweep has removed it before the block, or by the time that the block fails."""
        if self.last() is None:
            raise self._lost("has been swept away")
        try:
            yield
        except (OSError, RivetError) as error:
            if not isinstance(error, HeartbeatLost) and self.last() is None:
                raise self._lost("has been swept away") from error
            raise

    def is_alive(self) -> bool:
        """Return whether a live run may still be building the version."""
        last = self.last()
        return last is not None and self.now() - last <= DEAD_AFTER

    def _lost(self, why: str) -> RivetError:
        return RivetError("RVT-406", f"{self.builds} {why}: it cannot be published")


@contextmanager
def send_heartbeats(beat: Callable[[], None], table: str, seconds: float | None = None) -> Iterator[None]:
    """Call ``beat`` every ``seconds`` (default: SECONDS) in a thread, until the block ends or ``beat`` raises RVT-406.

    After any other error it is called again: what cannot be reached now may answer before the version counts as dead.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS if seconds is None else seconds):
            try:
                beat()
            except Exception as error:  # of storage, or of a client of it
                if isinstance(error, HeartbeatLost):
                    return  # publishing raises the same
                _LOG.warning("a heartbeat of %s has failed: %r", table, error)

    thread = threading.Thread(target=work, name=f"rivet-alive-{table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
