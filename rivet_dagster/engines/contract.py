"""What every engine can do: read relations, run one query, write its result, answer small questions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Kinds, Relation
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

Frame = Any
"""The engine's own lazy result; nobody outside the engine looks into it."""


@dataclass(frozen=True)
class Typed:
    """The value of a parameter that is bound with this type, written as Spark's SQL does."""

    value: Any
    type: str


@dataclass(frozen=True)
class Progress:
    """How far a write has come. Stages and tasks are those that the engine has begun, so their totals may grow.

    >>> Progress(stages_done=1, stages=2, tasks_done=240, tasks=800, seconds=20).percent
    30
    """

    stages_done: int
    stages: int
    tasks_done: int
    tasks: int
    seconds: float
    """Since the write began."""

    @property
    def percent(self) -> int:
        """The part of the tasks that is done; below 100 until all are."""
        return 100 * self.tasks_done // self.tasks


@dataclass(frozen=True)
class QueryPlan:
    """How the engine computes a query, in its own words.

    ``ui`` is the address where a person watches the engine; None where it has none, or does not tell.
    """

    text: str
    ui: str | None = None


@dataclass(frozen=True)
class DagsterResource:
    """The Dagster resource through which an engine connects, as plain data: nothing is imported to describe it.

    ``class_path`` names the class ("package.module:Class"), which is constructed with the engine's
    ``resource_arguments``; its attribute ``connection`` is what the engine takes as ``connect``.
    """

    class_path: str
    connection: str


class EngineSession(ABC):
    """One isolated piece of work: views registered here are seen by no other session.

    A context manager that closes itself; ``close`` can be called by itself, and again.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def load(self, relation: Relation, projection: Projection | None = None) -> Frame:
        """Return a frame that reads ``relation`` in place. Raises RVT-519 for a kind that the engine does not read."""

    @abstractmethod
    def register(self, name: str, frame: Frame) -> None:
        """Give ``frame`` a name that queries of this session can use; letter case makes no difference.

        Frames that were made with an earlier meaning of the name keep that.
        """

    @abstractmethod
    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of names: those registered in the block are dropped at its end.

        A name that was there before then means again what it did. Scopes may stand within one another.
        """

    @abstractmethod
    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Frame:
        """Return the lazy result of one query, as written; ``:name`` in it stands for a value of ``parameters``.

        A value that is ``Typed`` is bound as what it says, any other as what the engine takes it for.
        Raises RVT-503 with the engine's own message and, as ``line``, the line of ``sql`` that it means.
        """

    @abstractmethod
    def union_by_name(self, frames: Sequence[Frame]) -> Frame:
        """Return all rows of ``frames`` whose columns have the same names."""

    @abstractmethod
    def columns(self, frame: Frame) -> tuple[tuple[str, str], ...]:
        """Return the names and types of a frame's columns, in order; the types as Spark's SQL writes them."""

    @abstractmethod
    def schema(self, frame: Frame) -> str:
        """Return all that is known of a frame's columns, as the option ``schema`` of files takes it."""

    @abstractmethod
    def explain(self, frame: Frame) -> Callable[[], QueryPlan]:
        """Find out how ``frame`` is computed by the write that comes next; what this returns tells it after that.

        No row is read for it. Calling it raises RVT-503, RVT-510.
        """

    @abstractmethod
    def write(
        self,
        frame: Frame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
    ) -> None:
        """Run the frame's query once and append its rows to ``target``.

        No file holds rows with two different values of ``split_by``, a column of the frame that is not stored; a frame
        without rows leaves no file then.
        ``progress`` is called from this thread, about once a second as soon as tasks run; a write that is quicker never
        calls it, and one that called it calls it a last time with everything done. No number of a call is below that of
        the call before. What it raises stops the write. Raises RVT-503, and RVT-519 for a kind that the engine does not
        write.
        """

    @abstractmethod
    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the few rows of a small answer; ``timeout`` in seconds. Raises RVT-503, TimeoutError."""

    @abstractmethod
    def batches(self, frame: Frame) -> pa.RecordBatchReader:
        """Return all rows batch by batch, a few in this process's memory at a time. Reading raises RVT-503."""

    def to_arrow(self, frame: Frame) -> pa.Table:
        """Return all rows in this process's memory. Raises RVT-503."""
        return self.batches(frame).read_all()

    @abstractmethod
    def from_value(self, value: Any) -> Frame | None:
        """Return a frame over what a Python joint returned; None for a kind of value that it does not know.

        Raises RVT-316 for columns of one name, RVT-505 for what does not fit into columns.
        """

    @abstractmethod
    def close(self) -> None:
        """Forget the session's views and stop what it still runs."""


class Engine(ABC):
    """A query engine. Constructing one starts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.engines``, named by their ``type``.
    """

    type: ClassVar[str]
    options: ClassVar[frozenset[str]]
    """The keys of its declaration, besides name, type, catalogs and concurrency_limit."""
    reads: ClassVar[Kinds]
    """The kinds of Relation that its sessions load."""
    writes: ClassVar[Kinds]
    """The kinds of Relation that its sessions write to."""
    dialect: ClassVar[str]
    """The SQL that its sessions take, by sqlglot's name for it."""
    default_concurrency: ClassVar[int] = 1
    """How many groups run on it at once where the profile does not say."""
    resource: ClassVar[DagsterResource | None] = None
    """The Dagster resource through which steps connect; None where sessions connect by themselves."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``: a sentence by key, for a missing one too.

        A value that still holds ``${`` is not judged.
        """
        return {}

    @classmethod
    def embedded(cls, spec: EngineSpec) -> bool:
        """Return whether the engine runs inside the process that uses it, so that one should run all its groups."""
        return False

    @abstractmethod
    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        """Take ``spec`` with ``${VAR}`` expanded.

        ``connect`` gives the underlying connection (default: the engine's own). ``check_interrupt`` is called before
        each action of a session, and about once a second while one runs: what it raises stops the action. ``needs`` are
        those of the catalogs that the engine reaches. Raises RVT-103, RVT-104, RVT-105, RVT-126.
        """

    def resource_arguments(self) -> Mapping[str, Any]:
        """Return the arguments that the class of ``resource`` is constructed with."""
        return {}

    @abstractmethod
    def session(self) -> EngineSession:
        """Begin an isolated session; the engine itself starts at the first.

        Raises RVT-111, RVT-112, RVT-123, RVT-502, RVT-506.
        """

    def examine(self) -> Iterable[Finding]:
        """Return whether it could start in this process, found without starting it."""
        return ()


def cannot_read(engine: str, relation: Relation) -> RivetError:
    """Return RVT-519 for a relation that sessions of this type of engine do not load."""
    return RivetError("RVT-519", f"the engine {engine} does not read {_kind(relation)}")


def cannot_write(engine: str, target: Relation) -> RivetError:
    """Return RVT-519 for a relation that sessions of this type of engine do not write to."""
    return RivetError("RVT-519", f"the engine {engine} does not write {_kind(target)}")


def _kind(relation: Relation) -> str:
    return f"a relation of the kind {type(relation).__name__}"
