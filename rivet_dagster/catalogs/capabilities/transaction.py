"""The transaction that writes and publishes a new version of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rivet_dagster.catalogs.versions.heartbeat import send_heartbeats
from rivet_dagster.engines.contract import Frame, Progress, QueryPlan
from rivet_dagster.errors import HeartbeatLost, RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Base, Provenance, Published, StoredRows
from rivet_dagster.model.write_plan import WritePlan

if TYPE_CHECKING:
    import pyarrow as pa


def unobserved(frame: Frame) -> Frame:
    """Return ``frame`` itself: nothing is observed."""
    return frame


@dataclass(frozen=True)
class WriteContext:
    """Facts about a run that its write needs.

    ``window`` holds the partitions of the table that the run covers, and the table's partition column. ``started`` is
    the time when the run began, in UTC; ``progress`` is passed on to the engine's write; ``shows_values`` says whether
    messages may quote values of rows. ``computing`` is entered while the engine computes the frame to be written: an
    error raised there is one of the frame's own query. ``identity`` names the run, as it will be passed to ``commit``.
    ``observe`` returns a frame of the same rows, to be written instead of that which holds the rows of the batch as
    they are stored; storage that stores them in another way, or not by one write, does not call it.
    """

    window: Window | None = None
    started: datetime | None = None
    progress: Callable[[Progress], None] | None = None
    shows_values: bool = True
    computing: Callable[[], AbstractContextManager[None]] = nullcontext
    identity: str = ""
    observe: Callable[[Frame], Frame] = unobserved


NO_CONTEXT = WriteContext()


class TableTransaction(ABC):
    """A version of ``table`` that no reader sees until it is committed.

    As a context manager it sends heartbeats until the block ends, and is aborted at the end of the block, whether that
    fails or not, unless it has been committed. If the run counts as dead by the time the block raises a RivetError,
    RVT-406 is raised in its place, since the error may be a consequence of that.
    """

    table: str
    version: str
    """The name of the version, which it keeps when it is published."""

    query_plan: QueryPlan | None = None
    """The engine's plan of the batch; None unless it was written by a query."""

    branch: str | None = None
    """The branch of the table on which the version is staged, in storage that has branches."""

    _ended = False
    _published: Published | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has been committed or aborted, or its version withheld or staged."""
        return self._ended

    @property
    @abstractmethod
    def base(self) -> Base | None:
        """The published version that it builds upon; None if the table did not exist. Raises RVT-405."""

    @abstractmethod
    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Carry out ``plan`` with the rows of ``frame``, a frame of the session that the transaction was begun with.

        To be called once. Raises RVT-405 if the base has been removed; RVT-322 and RVT-512 to RVT-516 for a batch that
        does not fit the table.
        """

    @abstractmethod
    def put(self, rows: pa.RecordBatchReader) -> bool:
        """Replace all rows by ``rows``, without an engine, and return True. Raises RVT-404.

        Return False, without having read any row, if these types or this storage require an engine.
        """

    @property
    @abstractmethod
    def batch(self) -> StoredRows:
        """The batch alone, readable until the transaction ends."""

    @property
    @abstractmethod
    def whole(self) -> StoredRows:
        """All rows that the table has once this is committed; the same object as ``batch`` if it has no others."""

    def count_violations(self, rows: StoredRows, checks: Sequence[CompiledCheck]) -> Mapping[str, int]:
        """Return how many violations of ``checks`` there are among ``rows``, by name, where storage counts them itself.

        ``rows`` are the batch or all rows. By default it counts none, and an engine reads the rows. Raises RVT-403.
        """
        return {}

    @abstractmethod
    def beat(self) -> None:
        """Send a heartbeat; a run that sends none for DEAD_AFTER seconds counts as dead. Raises RVT-406, OSError."""

    def commit(self, identity: str, made: Provenance | None = None) -> Published:
        """Publish the version in one atomic step, and record ``identity``, the run that published it.

        The inputs and the code of ``made`` are recorded with the version; without it those that are known of it stay.
        A second call changes nothing. Raises RVT-404 if storage cannot be written to, RVT-405 if another run has
        published since this one began, RVT-406 as ``beat`` does, RVT-407 if what was written is damaged or has changed
        since it was judged.
        """
        if self._published is None:
            self._published = self._commit(identity, made)
            self._ended = True
        return self._published

    def abort(self) -> None:
        """Remove the version; what is published stays as it is. A second call, or one after a commit, does nothing."""
        if not self._ended:
            self._ended = True
            self._abort()

    @abstractmethod
    def _commit(self, identity: str, made: Provenance | None) -> Published:
        """Do what ``commit`` promises; called again only if it has raised.

        ``made`` is None where nothing was told.
        """

    @abstractmethod
    def _abort(self) -> None:
        """Do what ``abort`` promises; called at most once, never after a successful ``_commit``.

        It is also called if ``_commit`` has raised, be it after the atomic step: a version that is published stays.
        """

    def __enter__(self) -> Self:
        self._heartbeats = ExitStack()
        self._heartbeats.enter_context(send_heartbeats(self.beat, self.table))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeats.close()
        fails = not self._ended and isinstance(error, RivetError) and not isinstance(error, HeartbeatLost)
        death = self._death() if fails else None
        if not self._ended:
            self.abort()
        if death is not None:
            raise death from error

    def _death(self) -> RivetError | None:
        with suppress(OSError):
            try:
                self.beat()
            except RivetError as error:
                return error if isinstance(error, HeartbeatLost) else None
        return None
