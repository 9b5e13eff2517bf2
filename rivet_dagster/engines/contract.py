"""The interface of all engines: reading relations, running queries, and writing their results."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import Kinds, Relation
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

Frame = Any
"""The engine's own lazy result, opaque to everything outside the engine."""


WriteMode = Literal["append", "overwrite", "overwrite_partitions"]
"""What a write does with the rows of a ``CatalogTable``: keep them, replace all, or those of the partitions it has."""


@dataclass(frozen=True)
class Typed:
    """The value of a parameter, and the type that it is bound with, as Spark's SQL writes it."""

    value: Any
    type: str


@dataclass(frozen=True)
class Progress:
    """The progress of a write. Only stages that the engine has begun are counted, so the totals may grow.

    >>> Progress(stages_done=1, stages=2, tasks_done=240, tasks=800, seconds=20).percent
    30
    """

    stages_done: int
    stages: int
    tasks_done: int
    tasks: int
    seconds: float
    """Seconds since the write began."""

    @property
    def percent(self) -> int:
        """The percentage of the tasks that is done, rounded down, so that it is below 100 until all are."""
        return 100 * self.tasks_done // self.tasks


@dataclass(frozen=True)
class QueryPlan:
    """The engine's own text of how it computes a query.

    ``ui`` is the URL of the query, or of the engine, in the engine's web UI; None if there is none, or it is not known.
    """

    text: str
    ui: str | None = None


@dataclass(frozen=True)
class DagsterResource:
    """The Dagster resource through which an engine connects, described as plain data, without importing it.

    ``class_path`` names the class ("package.module:Class"), which is constructed with the engine's
    ``resource_arguments``; its attribute ``connection`` is what the engine's ``connect`` returns.
    """

    class_path: str
    connection: str


@dataclass(frozen=True)
class Observed:
    """A frame whose rows the engine looks at while it computes them for a write.

    ``result`` returns after the write, for each condition, how many rows were computed, or None if it was true for one
    of them; nothing if the engine has lost it. Where the engine repeats a part of its work, it counts rows repeatedly.
    """

    frame: Frame
    result: Callable[[], Sequence[int | None]]


class EngineSession(ABC):
    """An isolated session: no other session sees the views that are registered in it.

    As a context manager it closes itself; ``close`` can also be called directly, and more than once.
    """

    own_catalog: str = "spark_catalog"
    """The name by which its queries address the session's own catalog, in which a catalog ``spark`` has its tables."""

    queries_at_once: int = 1
    """How many queries of a few rows it computes soonest as one, more than 1 where each query has costs of its own."""

    threads_at_once: int = 1
    """How many threads may compute queries of a few rows in it at the same time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def load(self, relation: Relation, projection: Projection | None = None) -> Frame:
        """Return a frame that reads ``relation`` in place. Raises RVT-519 for a kind that the engine cannot read."""

    def load_separated(self, relation: Relation, projection: Projection | None = None) -> tuple[Frame, Frame] | None:
        """Return a frame as ``load`` does, without the corrupt records of ``relation``, and a frame of these records.

        The second one has one column, ``record``, a STRING with the record as it stands in its file. A record is
        corrupt if it does not fit the columns of the relation, all of them, whichever are in ``projection`` or used by
        a query. None if no record of the relation can be corrupt, or if its own options say what is done with such
        records. ``projection`` has no limit.
        """
        return None

    def runs_in(self, database: str) -> bool:
        """Return whether queries run in the database of a JDBC URL.

        Then a ``JdbcTable`` of it is read by its ``native_rows``, and ``write`` adds rows to its tables.
        """
        return False

    @abstractmethod
    def register(self, name: str, frame: Frame) -> None:
        """Register ``frame`` as a view that queries of this session can use; letter case makes no difference.

        Frames that were made while the name had another meaning are not affected.
        """

    @abstractmethod
    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of views: those registered in the block are dropped at its end.

        Views that they replaced are restored then. Scopes may be nested.
        """

    @abstractmethod
    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Frame:
        """Return the lazy result of a query, which is run as written; ``:name`` stands for a value of ``parameters``.

        A ``Typed`` value is bound with its type, any other with the type that the engine infers. Raises RVT-503 with
        the engine's own message and, as ``line``, the line of ``sql`` that the message refers to.
        """

    def query_in(self, dialect: str, sql: str, parameters: Mapping[str, Any] | None = None) -> Frame:
        """Return the lazy result of a query in the engine's own ``dialect``, as ``query`` does of one in Spark's SQL.

        Parameters are written as in that dialect. An engine whose ``dialect`` is not Spark's has this method.
        """
        raise NotImplementedError

    def separating_errors(self) -> AbstractContextManager[None]:
        """Begin a scope in which queries of good rows, or of errors, of ``RowErrors`` are made and computed.

        Within it a condition that guards an expression is evaluated before the expression, wherever else in the query
        that occurs.
        """
        return nullcontext()

    @abstractmethod
    def union_by_name(self, frames: Sequence[Frame]) -> Frame:
        """Return all rows of ``frames``, whose columns have the same names and are matched by them."""

    @abstractmethod
    def columns(self, frame: Frame) -> tuple[tuple[str, str], ...]:
        """Return the names and types of a frame's columns, in order; the types as Spark's SQL writes them."""

    @abstractmethod
    def schema(self, frame: Frame) -> str:
        """Return the full schema of a frame, in the form of the option ``schema`` of ``Files``."""

    @abstractmethod
    def explain(self, frame: Frame) -> Callable[[], QueryPlan]:
        """Return a function that, after the next write, returns how ``frame`` was computed by it.

        No row is read for it. The returned function raises RVT-503, RVT-510.
        """

    def observe(self, frame: Frame, conditions: Sequence[str]) -> Observed | None:
        """Return ``frame`` as one for whose rows ``conditions`` are evaluated by its next write.

        They are conditions of Spark's SQL that never raise an error for a row. None if the engine cannot do so, or
        cannot analyze one of them.
        """
        return None

    def stores_exactly(self) -> bool:
        """Return whether a write stores each value as it was computed, whatever the settings of the session."""
        return True

    @abstractmethod
    def write(
        self,
        frame: Frame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Run the frame's query once and add its rows to ``target``; other modes than append are for ``CatalogTable``.

        No file holds rows with two different values of ``split_by``, a column of the frame that is not stored; with
        ``split_by``, a frame without rows leaves no file.

        ``progress`` is a listener. It is called from this thread, about once a second as soon as tasks run, and, if it
        was ever called, a last time with everything done; a quicker write never calls it. No number decreases from one
        call to the next. An exception that it raises stops the write. Raises RVT-503, and RVT-519 for a kind that the
        engine cannot write.
        """

    def execute(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Run a statement that changes a ``CatalogTable``, such as a MERGE; ``progress`` is called as by ``write``.

        An engine that writes to ``CatalogTable`` has this method. Raises RVT-503.
        """
        raise NotImplementedError

    def run_tasks(
        self,
        frame: Frame,
        task: Callable[[Iterator[pa.RecordBatch]], bytes],
        most: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> list[bytes]:
        """Run the frame's query once, and have ``task`` called where its rows are computed, with batches of these.

        Each call gets the rows of a part of the result, at most ``most`` of them at a time, and all calls together get
        each row once. The results are returned in any order; where the engine has to repeat a call, the result of one
        whose rows count. ``task`` is a function of a module, or a ``partial`` of one, and nothing else of that module's
        package can be imported where it runs. ``progress`` is called as by ``write``.

        By default one call, in this process, gets all rows. Raises RVT-503, RVT-520.
        """
        return [task(iter(self.batches(frame)))]

    @abstractmethod
    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a query with a small result; ``timeout`` in seconds. Raises RVT-503, TimeoutError."""

    @abstractmethod
    def batches(self, frame: Frame) -> pa.RecordBatchReader:
        """Return all rows batch by batch, a few in this process's memory at a time. Reading raises RVT-503.

        All fields of the schema, inner ones too, are nullable: the next version of the same table may hold NULL.
        """

    def to_arrow(self, frame: Frame) -> pa.Table:
        """Return all rows in this process's memory. Raises RVT-503."""
        return self.batches(frame).read_all()

    @abstractmethod
    def from_value(self, value: Any) -> Frame | None:
        """Return a frame over a value that a Python joint returned; None for a type of value that is not supported.

        Raises RVT-316 for columns of the same name, RVT-505 for values that do not fit into columns.
        """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings for this session alone; an engine whose sessions have settings has this method.

        Raises RVT-204 for a setting that it does not know, or that holds for all sessions.
        """
        raise NotImplementedError

    def expect_few_rows(self) -> None:
        """Prepare the session for many queries of a few rows each, which are to be quick; their results are the same.

        An engine does nothing here if its sessions have nothing to choose.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Drop the session's views and stop the queries that it is still running."""


class Engine(ABC):
    """A query engine. Constructing one starts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.engines``, named by their ``type``.
    """

    type: ClassVar[str]
    options: ClassVar[frozenset[str]]
    """The keys that its declaration may have, besides name, type, catalogs and concurrency_limit."""
    other_options: ClassVar[bool] = False
    """Whether the declaration may have any other keys, which ``check`` gets, too; a misspelt key is refused anyway."""
    path_options: ClassVar[frozenset[str]] = frozenset()
    """The options that are paths or lists of paths; the constructor gets them absolute, or as URIs."""
    reads: ClassVar[Kinds]
    """The kinds of Relation that its sessions can load."""
    writes: ClassVar[Kinds]
    """The kinds of Relation that its sessions can write to."""
    dialect: ClassVar[str]
    """The SQL dialect of its sessions, by sqlglot's name for it."""
    default_concurrency: ClassVar[int] = 1
    """How many groups may run on it at once, unless the profile says."""
    separates_errors: ClassVar[bool] = False
    """Whether its sessions run the queries of ``RowErrors``, which are Spark's SQL."""
    resource: ClassVar[DagsterResource | None] = None
    """The Dagster resource through which steps connect; None if sessions connect by themselves."""

    root: Path = Path()
    """The project's folder, which ``open_engine`` sets; the current one for an engine that is made by itself."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key, missing keys included.

        Each is the end of a sentence that begins with the key, as in ``must be a folder``.
        A value with an unexpanded ``${`` is not checked.
        """
        return {}

    @classmethod
    def variant(cls, options: Mapping[str, Any]) -> builtins.type[Engine]:
        """Return the class of a declaration with these ``options``: a subclass where they change what it can do."""
        return cls

    @classmethod
    def sql_support(cls, spec: EngineSpec) -> str | None:
        """Return the name of the list of constructs by which Spark's SQL runs on the engine, None where it is Spark."""
        return None

    @classmethod
    def refuses_catalogs(cls, catalogs: Sequence[CatalogSpec]) -> str | None:
        """Return why the engine cannot use the ``catalogs`` of its declaration, the end of a sentence about these.

        The workspace is within its reach if it is one of them, or could be one beside them.
        """
        return None

    @classmethod
    def refuses_check(cls, sql: str) -> str | None:
        """Return the construct for which sessions refuse a query of a check, which is Spark's SQL; None if they do not.

        An engine with a list of ``sql_support`` has these queries judged by that.
        """
        return None

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return why the engine cannot read, or write, a table of a catalog as a joint with these options does.

        ``format`` is that of the table's files, as far as its declaration says it. Each message is the end of a
        sentence that begins with the engine.
        """
        return ()

    @classmethod
    def wrong_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return for each setting that ``EngineSession.configure`` does not take why it does not, as ``check`` does."""
        return dict.fromkeys(settings, "has no meaning: sessions of this engine have no settings of their own")

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return whether the engine runs on this machine, in the process that uses it or as a server of the project.

        Then one process runs all groups of a run, since another one would cost more than it could gain.
        """
        return False

    @classmethod
    def for_few_rows(cls, spec: EngineSpec) -> EngineSpec:
        """Return the declaration of an engine that is to compute many queries of a few rows each, and starts for that.

        It is ``spec`` itself where an engine has nothing to choose when it starts.
        """
        return spec

    @abstractmethod
    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        """Take ``spec`` with ``${VAR}`` expanded.

        ``connect`` returns the underlying connection (default: the engine makes its own). ``check_interrupt`` is called
        before each action of a session, and about once a second while one runs; an exception that it raises stops the
        action. ``needs`` are those of the catalogs that the engine reaches. Raises RVT-103, RVT-104, RVT-105, RVT-126.
        """

    def import_packages(self) -> None:
        """Import what sessions need, which the first one does otherwise. Raises RVT-123."""
        return

    def resource_arguments(self) -> Mapping[str, Any]:
        """Return the keyword arguments with which the class of ``resource`` is constructed."""
        return {}

    @abstractmethod
    def session(self) -> EngineSession:
        """Begin an isolated session; the engine itself starts with the first one.

        Raises RVT-111, RVT-112, RVT-123, RVT-502, RVT-506.
        """

    def examine(self) -> Iterable[Finding]:
        """Return findings about whether the engine could start in this process, without starting it."""
        return ()


def cannot_read(engine: str, relation: Relation) -> RivetError:
    """Return RVT-519 for a relation that this type of engine cannot read."""
    return RivetError("RVT-519", f"the engine {engine} does not read {_kind(relation)}")


def cannot_write(engine: str, target: Relation) -> RivetError:
    """Return RVT-519 for a relation that this type of engine cannot write."""
    return RivetError("RVT-519", f"the engine {engine} does not write {_kind(target)}")


def _kind(relation: Relation) -> str:
    return f"a relation of the kind {type(relation).__name__}"
