"""A new version of a table on its way to its readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rivet_dagster.catalogs.beating import beating
from rivet_dagster.engines.contract import Frame, Progress, QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import Inputs
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Base, Published, StoredRows
from rivet_dagster.model.write_plan import WritePlan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class WriteContext:
    """The facts about a run that a write of it needs.

    ``window`` are the partitions that the run covers: those of the table, whose column this names. ``started`` is when
    the run began, in UTC; ``progress`` is called as engines call it; ``shows_values`` says whether messages may quote
    values of rows. ``computing`` is entered while the engine computes the frame that is written: what goes wrong then
    is the fault of the frame's own query.
    """

    window: Window | None = None
    started: datetime | None = None
    progress: Callable[[Progress], None] | None = None
    shows_values: bool = True
    computing: Callable[[], AbstractContextManager[None]] = nullcontext


NO_CONTEXT = WriteContext()


class TableTransaction(ABC):
    """A version of ``table`` that no reader sees until it is committed.

    Entered as a context manager it gives signs of life until the block ends, and is aborted there, however the block
    ends, unless it has been committed. In place of a RivetError of the block RVT-406 is raised where the run counted as
    dead by then: whatever else it met may come of that.
    """

    table: str
    version: str
    """Its name, which is that of the published version later on."""

    query_plan: QueryPlan | None = None
    """How the engine computed the batch, where it has been written by a query."""

    _ended = False

    @property
    @abstractmethod
    def base(self) -> Base | None:
        """The published version that it builds upon; None where the table did not exist. Raises RVT-405."""

    @abstractmethod
    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Carry out ``plan`` with the rows of ``frame``, of the session that the transaction was begun with.

        Called once. Raises RVT-405 where the base is gone; RVT-322 and RVT-512 to RVT-516 for a batch that does not
        fit.
        """

    @abstractmethod
    def put(self, rows: pa.RecordBatchReader) -> bool:
        """Replace all rows by these, without an engine. Raises RVT-404.

        False, with nothing read, where that takes an engine: for these types, or for this storage.
        """

    @property
    @abstractmethod
    def batch(self) -> StoredRows:
        """The rows that were given, by themselves, readable until the transaction ends."""

    @property
    @abstractmethod
    def whole(self) -> StoredRows:
        """All rows that the table has once this is committed; the same object as ``batch`` where those are all."""

    @abstractmethod
    def beat(self) -> None:
        """Give a sign of life; whoever gives none for DEAD_AFTER seconds counts as dead. Raises RVT-406, OSError."""

    def commit(self, identity: str, inputs: Inputs | None = None) -> Published:
        """Switch readers to it in one atomic step, and remember ``identity``, the run that did it.

        ``inputs`` says what it was made from. Committed again, it changes nothing. Raises RVT-404 where the place
        cannot be written to, RVT-405 where another run published since it was begun, RVT-406 as ``beat`` does, RVT-407
        where what was written is damaged or not what was judged.
        """
        published = self._commit(identity, inputs)
        self._ended = True
        return published

    def abort(self) -> None:
        """Remove all of it; what is published stays as it is. It may be called again, and after a commit."""
        self._ended = True
        self._abort()

    @abstractmethod
    def _commit(self, identity: str, inputs: Inputs | None) -> Published: ...

    @abstractmethod
    def _abort(self) -> None: ...

    def __enter__(self) -> Self:
        self._signs = ExitStack()
        self._signs.enter_context(beating(self.beat, self.table))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signs.close()
        fails = not self._ended and isinstance(error, RivetError) and error.code != "RVT-406"
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
                return error if error.code == "RVT-406" else None
        return None
