"""What Spark does in one way within this process and in another over Spark Connect, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.stages import See

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SparkAdapter(ABC):
    """One Spark session, ``spark``, and what can be done with it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells the application, or the session on the server, from all others."""

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether nothing can be run any more."""

    @property
    @abstractmethod
    def sees_local_files(self) -> bool:
        """Whether whatever reads rows for it certainly sees the files of this machine."""

    @abstractmethod
    def new_session(self) -> SparkAdapter:
        """Begin another session of the same application, or on the same server, with views of its own."""

    @abstractmethod
    def begin(self, *tags: str) -> None:
        """Tag all that the calling thread runs from now on."""

    @abstractmethod
    def cancel(self, tag: str) -> None:
        """Stop all that runs under ``tag``."""

    @abstractmethod
    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Call ``see`` every second or two, until the block ends, with the stages of what runs under ``tag``."""

    @abstractmethod
    def explain(self, frame: DataFrame, tag: str) -> Callable[[], QueryPlan]:
        """Return what tells the plan of ``frame``, of which ``tag`` will be that of its write."""

    @abstractmethod
    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return ``frame``, its mistakes found and its names given the meaning that they have now."""

    @abstractmethod
    def adopted(self, frame: Any) -> DataFrame:
        """Return ``frame`` as one of this session; user code may have made it in another."""

    @abstractmethod
    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``frame``, never more than those of one of Spark's partitions in memory."""

    @abstractmethod
    def close(self) -> None:
        """End the session; the application, or the server, goes on."""
