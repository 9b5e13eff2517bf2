"""What every engine can do: read relations, run one query, write its result, answer small questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Projection

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


class EngineSession(Protocol):
    """One isolated piece of work: views registered here are seen by nobody else."""

    def load(self, relation: Relation, projection: Projection | None = None) -> Frame:
        """A frame that reads ``relation`` in place."""

    def register(self, name: str, frame: Frame) -> None:
        """Give ``frame`` a name that queries of this session can use."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Frame:
        """The lazy result of one query, as written; ``:name`` in it stands for a value of ``parameters``.

        A value that is ``Typed`` is bound as what it says, any other as what the engine takes it for.
        Raises RVT-503 with the engine's own message and, as ``line``, the line of ``sql`` that it means.
        """

    def union_by_name(self, frames: Sequence[Frame]) -> Frame:
        """All rows of ``frames`` whose columns have the same names."""

    def columns(self, frame: Frame) -> tuple[tuple[str, str], ...]:
        """The names and types of a frame's columns, in order."""

    def schema(self, frame: Frame) -> str:
        """All that is known of a frame's columns, as the option ``schema`` of files takes it."""

    def explain(self, frame: Frame) -> Callable[[], QueryPlan]:
        """Find out how ``frame`` is computed by the write that comes next; what this gives tells it after that.

        No row is read for it. Telling it raises RVT-503, RVT-510.
        """

    def write(
        self,
        frame: Frame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
    ) -> None:
        """Run the frame's query once and add its rows to ``target``, where no reader looks yet.

        No file holds rows with two different values of ``split_by``, a column of the frame that is not stored; a frame
        without rows leaves no file then.
        ``progress`` is called from this thread, about once a second as soon as tasks run; a write that is quicker never
        calls it, and one that called it calls it a last time with everything done. No number of a call is below that of
        the call before. What it raises stops the write. Raises RVT-503.
        """

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """The few rows of a small answer; ``timeout`` in seconds. Raises RVT-503, TimeoutError."""

    def to_arrow(self, frame: Frame) -> Any:
        """All rows as a pyarrow.Table, through this process."""

    def from_value(self, value: Any) -> Frame | None:
        """A frame over what a Python joint returned; None for a kind of value that it does not know."""

    def close(self) -> None:
        """Forget the session's views and stop what it still runs."""


class Engine(Protocol):
    """A query engine. Constructing one starts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.engines``, named by their ``type``.
    """

    type: ClassVar[str]
    options: ClassVar[frozenset[str]]
    """The keys of its declaration, besides name, type, catalogs and concurrency_limit."""
    default_concurrency: ClassVar[int]

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with the values of ``options``: a sentence by key, for a missing one too.

        A value that still holds ``${`` is not judged.
        """

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        heed: Callable[[], None] | None = None,
    ) -> None:
        """``spec`` with ``${VAR}`` expanded; ``connect`` gives the underlying session (default: the engine's own).

        ``heed`` is called before each action of a session, and about once a second while one runs: what it raises stops
        the action. Raises RVT-103, RVT-104, RVT-105.
        """

    @classmethod
    def embedded(cls, spec: EngineSpec) -> bool:
        """Whether the engine runs inside the process that uses it, so that one process should run all its groups."""

    def session_config(self) -> dict[str, str]:
        """The settings that its underlying session is built with."""

    def session(self) -> EngineSession:
        """Begin an isolated session; the engine itself starts at the first.

        Raises RVT-111, RVT-112, RVT-123, RVT-502, RVT-506.
        """

    def examine(self) -> Iterable[Finding]:
        """Whether it could start in this process, found without starting it."""
        return ()
