"""The interface for operations that differ between Spark in this process and Spark Connect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.progress import StageListener
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation, SparkSession


class SparkAdapter(ABC):
    """One Spark session, ``spark``, and the operations on it that depend on its kind."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    @abstractmethod
    def identity(self) -> str:
        """The unique id of the application, or of the session on the server."""

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether the application or session has ended."""

    @property
    @abstractmethod
    def sees_local_files(self) -> bool:
        """Whether the executors certainly have access to the files of this machine."""

    @abstractmethod
    def lost(self) -> RivetError | None:
        """Return the error that says that Spark has ended, None while it runs, or where that is not known."""

    @abstractmethod
    def new_session(self) -> SparkAdapter:
        """Begin another session of the same application, or on the same server, with views of its own."""

    @abstractmethod
    def begin(self, *tags: str) -> None:
        """Tag all jobs or operations that the calling thread runs from now on."""

    @abstractmethod
    def cancel(self, tag: str) -> None:
        """Cancel all jobs or operations that run under ``tag``."""

    @abstractmethod
    def listen(self, tag: str, listener: StageListener) -> AbstractContextManager[None]:
        """Call ``listener`` every second or two, until the block ends, with the stages of what runs under ``tag``."""

    @abstractmethod
    def explain(self, frame: DataFrame, tag: Callable[[], str]) -> Callable[[], QueryPlan]:
        """Return a function that returns the plan of ``frame`` after its write, whose tag ``tag`` then returns."""

    @abstractmethod
    def observed(self, observation: Observation) -> Mapping[str, Any]:
        """Return what an observed frame's write has counted; nothing if Spark has lost it."""

    @abstractmethod
    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` analyzed: errors are raised, and names resolved to the current views."""

    @abstractmethod
    def adopted(self, frame: Any) -> DataFrame:
        """Return ``frame`` as a frame of this session; user code may have made it in another one."""

    @abstractmethod
    def resolved(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` as a plan that no statement analyzes again, so that its views may be gone by then."""

    @abstractmethod
    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``frame``, with at most the rows of one Spark partition in memory."""

    @property
    @abstractmethod
    def drops_slow_readers(self) -> bool:
        """Whether the rest of ``batches`` is lost if nobody asks for the next batch for a while."""

    @property
    @abstractmethod
    def keeps_views(self) -> bool:
        """Whether views stay when the session is closed, until they are dropped."""

    @abstractmethod
    def close(self) -> None:
        """End the session; the application, or the server, continues to run."""
