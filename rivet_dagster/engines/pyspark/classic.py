"""The adapter for Spark in an application of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.plans import plan_of_execution
from rivet_dagster.engines.pyspark.progress import StageListener, stages_polled
from rivet_dagster.engines.pyspark.results import arrow_schema
from rivet_dagster.errors import RivetError

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

    def lost(self) -> RivetError | None:
        """Return None: exceptions of py4j tell that its JVM has ended."""
        return None

    def new_session(self) -> ClassicAdapter:
        """Begin a session with views, functions and settings of its own."""
        return ClassicAdapter(self.spark.newSession())

    def begin(self, *tags: str) -> None:
        """Tag the jobs of the calling thread, and have a cancel interrupt tasks that wait."""
        for tag in tags:
            self.spark.sparkContext.addJobTag(tag)
        self.spark.sparkContext.setInterruptOnCancel(True)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs under ``tag`` that run now."""
        self.spark.sparkContext.cancelJobsWithTag(tag)

    def listen(self, tag: str, listener: StageListener) -> AbstractContextManager[None]:
        """Poll the stages of the jobs under ``tag``."""
        return stages_polled(self.spark.sparkContext, tag, listener)

    def explain(self, frame: DataFrame, tag: Callable[[], str]) -> Callable[[], QueryPlan]:
        """Return a function that looks up the write in Spark's SQL status store."""
        return lambda: plan_of_execution(self.spark, tag())

    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` itself, which Spark analyzed when it was made."""
        return frame

    def adopted(self, frame: Any) -> DataFrame:
        """Return a frame of this session with the analyzed plan of ``frame``, in which its views are resolved."""
        return frame if frame.sparkSession is self.spark else self.resolved(frame)

    def resolved(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the analyzed plan: ``writeTo`` takes the one before, which names views."""
        from pyspark.sql.classic.dataframe import DataFrame

        dataset = getattr(getattr(self.spark._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
        return DataFrame(dataset.ofRows(self.spark._jsparkSession, frame._jdf.queryExecution().analyzed()), self.spark)

    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition after the other, each as Arrow from the JVM."""
        # Not toArrow(), which holds all rows in memory, nor toLocalIterator(), which makes a Python object of each row.
        import pyarrow as pa
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        encoded: Any = frame._jdf.toArrowBatchRdd().toJavaRDD()
        schema = None
        messages: RDD[bytes] = RDD(encoded, self.spark.sparkContext, NoOpSerializer())
        for message in messages.toLocalIterator():
            if schema is None:
                schema = arrow_schema(frame.schema)
            yield pa.ipc.read_record_batch(message, schema)

    @property
    def drops_slow_readers(self) -> bool:
        """False: each partition waits in the driver."""
        return False

    def close(self) -> None:
        """Do nothing: Spark drops a session that is not referenced any more."""
