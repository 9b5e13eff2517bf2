"""One isolated piece of work on Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from rivet_dagster.engines.contract import EngineSession, Progress, QueryPlan
from rivet_dagster.engines.pyspark.files import read_files, write_files
from rivet_dagster.engines.pyspark.jobs import is_connect, jobs_of
from rivet_dagster.engines.pyspark.messages import keep_reported_errors_off_the_terminal, spark_error
from rivet_dagster.engines.pyspark.parameters import bound
from rivet_dagster.engines.pyspark.plans import asked, noted
from rivet_dagster.engines.pyspark.progress import telling
from rivet_dagster.engines.pyspark.rows import collected
from rivet_dagster.engines.pyspark.values import adopted, frame_of
from rivet_dagster.engines.pyspark.waiting import wait_for
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_EXPLAINED = "rivet_explained"


class PySparkSession(EngineSession):
    """A Spark session with views and settings of its own, on the application that ``base`` belongs to.

    ``settings`` are set in it; views, functions and settings that somebody gave ``base`` meanwhile are not. Whatever
    makes Spark work can be interrupted, which stops Spark too; so does what ``heed`` raises.
    """

    def __init__(self, base: SparkSession, settings: Mapping[str, str], heed: Callable[[], None] | None = None) -> None:
        keep_reported_errors_off_the_terminal()
        self.spark = _beside(base)
        self._jobs = jobs_of(self.spark)
        self._tag = f"rivet-{uuid.uuid4().hex}"
        self._heed = heed or _nothing
        self._actions = 0
        self._views: set[str] = set()
        for key, value in settings.items():
            self.spark.conf.set(key, value)

    def load(self, relation: Relation, projection: Projection | None = None) -> DataFrame:
        """A frame that reads files in place."""
        assert isinstance(relation, Files)
        remediation = "Correct the source's `options`, `columns` or `filter`, or its files."
        return self._run(lambda: self._analyzed(read_files(self.spark, relation, projection)), None, remediation)

    def register(self, name: str, frame: DataFrame) -> None:
        """A temporary view, seen by this session alone."""
        adopted(self.spark, frame).createOrReplaceTempView(name)
        self._views.add(name)

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """The lazy result of ``sql``."""
        return self._run(lambda: self._analyzed(self.spark.sql(sql, args=bound(parameters))))

    def union_by_name(self, frames: Sequence[DataFrame]) -> DataFrame:
        """All rows of ``frames``, matched by column name in the order of the first."""
        return self._run(lambda: self._analyzed(reduce(lambda one, other: one.unionByName(other), frames)))

    def columns(self, frame: DataFrame) -> tuple[tuple[str, str], ...]:
        """Names and types, as Spark's SQL writes them."""
        return tuple(self._run(lambda: frame.dtypes))

    def schema(self, frame: DataFrame) -> str:
        """The JSON of its StructType."""
        return self._run(lambda: frame.schema.json())

    def explain(self, frame: DataFrame) -> Callable[[], QueryPlan]:
        """What EXPLAIN FORMATTED says of it, and its page among those of the application."""
        if is_connect(self.spark):
            plan = asked(_EXPLAINED, self.spark, lambda: self.register(_EXPLAINED, frame))
            return lambda: self._run(plan)
        tag = f"{self._tag}-{self._actions + 1}"
        return lambda: self._run(lambda: noted(self.spark, tag))

    def write(
        self,
        frame: DataFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
    ) -> None:
        """One Spark SQL execution; raises RVT-316 for columns of one name."""
        assert isinstance(target, Files)
        self._run(lambda: write_files(frame, target, split_by), progress=progress)

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Rows as dictionaries; timestamps carry a time zone."""
        return self._run(lambda: collected(self.spark.sql(sql, args=bound(parameters))), timeout)

    def to_arrow(self, frame: DataFrame) -> Any:
        """All rows as a pyarrow.Table."""
        return self._run(frame.toArrow)

    def from_value(self, value: Any) -> DataFrame | None:
        """A frame over a Spark, pandas or polars frame, pyarrow Table, RecordBatch or RecordBatchReader."""
        remediation = "Return columns of types that Spark has."
        return self._run(lambda: frame_of(self.spark, value), None, remediation)

    def close(self) -> None:
        """Drop the views, and stop what was left running; the application goes on."""
        # Where Spark itself has died there is nothing left to drop, and its own error is what the user must see.
        with suppress(Exception):
            self._jobs.cancel(self._tag)
            for name in self._views:
                self.spark.catalog.dropTempView(name)
            if is_connect(self.spark):
                self.spark.stop()
        self._views.clear()

    def _run(
        self,
        action: Callable[[], T],
        timeout: float | None = None,
        remediation: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> T:
        self._actions += 1
        tag = f"{self._tag}-{self._actions}"

        def tagged() -> T:
            self._jobs.begin(self._tag, tag)
            return action()

        try:
            self._heed()
            with telling(progress, self._jobs, tag) if progress else nullcontext(_nothing) as tell:

                def tick() -> None:
                    self._heed()
                    tell()

                return wait_for(tagged, lambda: self._jobs.cancel(tag), timeout, tick=tick)
        except Exception as error:
            translated = spark_error(error, remediation)
            if translated is None:
                raise
            raise translated from error

    def _analyzed(self, frame: DataFrame) -> DataFrame:
        """``frame``, whose mistakes Spark has found: over Connect it looks for them only when asked."""
        if is_connect(self.spark):
            _ = frame.schema
        return frame


def _nothing() -> None:
    """Nobody is told, and nothing has to stop."""


def _beside(base: SparkSession) -> SparkSession:
    """A new session of the application, or on the server, of ``base``."""
    if not is_connect(base):
        return base.newSession()
    # Connect has no newSession(): a second one over the same address and credentials.
    connect: Any = base
    session: SparkSession = type(connect).builder.channelBuilder(connect.client._builder).create()
    return session
