"""Spark in an application of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.plans import noted
from rivet_dagster.engines.pyspark.stages import See, polled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ClassicAdapter(SparkAdapter):
    """A session of this process's application."""

    @property
    def identity(self) -> str:
        """The application's id."""
        return str(self.spark.sparkContext.applicationId)

    @property
    def is_stopped(self) -> bool:
        """Whether the application has ended."""
        return self.spark.sparkContext._jsc is None

    @property
    def sees_local_files(self) -> bool:
        """Whether the executors run on this machine."""
        return str(self.spark.sparkContext.master).startswith("local")

    def new_session(self) -> ClassicAdapter:
        """Begin a session with views, functions and settings of its own."""
        return ClassicAdapter(self.spark.newSession())

    def begin(self, *tags: str) -> None:
        """Tag the jobs of the calling thread, and let a cancel interrupt tasks that wait."""
        for tag in tags:
            self.spark.sparkContext.addJobTag(tag)
        self.spark.sparkContext.setInterruptOnCancel(True)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs under ``tag`` that run now."""
        self.spark.sparkContext.cancelJobsWithTag(tag)

    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Ask for the stages of the jobs under ``tag``."""
        return polled(self.spark.sparkContext, tag, see)

    def explain(self, frame: DataFrame, tag: str) -> Callable[[], QueryPlan]:
        """Return what looks up the notes that Spark takes of the write."""
        return lambda: noted(self.spark, tag)

    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` itself: Spark has analyzed it when it was made."""
        return frame

    def adopted(self, frame: Any) -> DataFrame:
        """Return a frame of this session with the analyzed plan of ``frame``, which holds what its views stood for."""
        if frame.sparkSession is self.spark:
            return frame  # type: ignore[no-any-return]
        from pyspark.sql.classic.dataframe import DataFrame

        dataset = getattr(getattr(self.spark._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
        return DataFrame(dataset.ofRows(self.spark._jsparkSession, frame._jdf.queryExecution().analyzed()), self.spark)

    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition after the other, each as Arrow from the JVM."""
        # Not toArrow(), which holds all rows here, nor toLocalIterator(), which makes a Python object of each.
        import pyarrow as pa
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        encoded: Any = frame._jdf.toArrowBatchRdd().toJavaRDD()
        schema = None
        messages: RDD[bytes] = RDD(encoded, self.spark.sparkContext, NoOpSerializer())
        for message in messages.toLocalIterator():
            if schema is None:
                schema = _schema(frame)
            yield pa.ipc.read_record_batch(message, schema)

    def close(self) -> None:
        """End nothing: the session goes when nobody uses it."""


def _schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)
