"""Isolated sessions on Spark."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rivet_dagster.engines.arrow_values import nullable
from rivet_dagster.engines.contract import EngineSession, Observed, Progress, QueryPlan, Typed, WriteMode
from rivet_dagster.engines.pyspark.config import is_modifiable
from rivet_dagster.engines.pyspark.messages import keep_reported_errors_off_the_terminal, spark_error
from rivet_dagster.engines.pyspark.progress import report_progress
from rivet_dagster.engines.pyspark.relations import read, read_separated, write
from rivet_dagster.engines.pyspark.relations.arrow_rows import BatchQueue, Spool, frame_of
from rivet_dagster.engines.pyspark.relations.catalog_table import refuse_audit_settings
from rivet_dagster.engines.pyspark.results import arrow_schema, collect_rows, sql_type
from rivet_dagster.engines.pyspark.tasks import run_tasks
from rivet_dagster.engines.pyspark.waiting import stream, wait_for
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.errors import EngineUnusable, RivetError
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter

T = TypeVar("T")

_SEPARATING = {
    "spark.sql.subexpressionElimination.enabled": ("true", "false"),
    "spark.sql.alwaysInlineCommonExpr": ("false", "true"),
    "spark.sql.variant.pushVariantIntoScan": ("true", "false"),
    "spark.sql.analyzer.maxIterations": ("100", "10000"),
}
"""Settings for queries that separate errors from rows, each with Spark's default and its value there.

By the first three Spark computes an expression ahead of where it stands: the second is about BETWEEN and NULLIF, the
third about casts of variants. The last one is about long chains of joints: each ``*`` waits for the one below it.
"""

_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.ui.explainMode": "simple",
}
"""Settings with which a query of a few rows takes a third of the time; two are about the text of its plan."""

_INEXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}
"""Settings with values by which two different values may be stored as one."""


_OF_SOURCE = "Correct the source's `options`, `columns` or `filter`, or its files."


class PySparkSession(EngineSession):
    """A Spark session with views and settings of its own, on the application that ``base`` belongs to.

    ``settings`` are set in it; views, functions and settings that other code gave to ``base`` are not shared. An
    interrupt, or an exception that ``check_interrupt`` raises, also cancels the action that Spark is running.
    """

    queries_at_once = 25
    threads_at_once = 2  # most of the time goes into planning, which uses one core

    def __init__(
        self, base: SparkAdapter, settings: Mapping[str, str], check_interrupt: Callable[[], None] | None = None
    ) -> None:
        keep_reported_errors_off_the_terminal()
        self._adapter = base.new_session()
        self.spark = self._adapter.spark
        self._tag = f"rivet-{uuid.uuid4().hex}"
        self._check_interrupt = check_interrupt or _nothing
        self._actions = 0
        self._tag_of_write = ""
        self._spool = Spool()
        self._names: dict[str, str] = {}
        """The names of views by their lower case, where a server distinguishes letter case."""
        self._views = ScopedViews(self._bind, self._unbind)
        self._closed = False
        self._set(settings)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings of Spark SQL. Raises RVT-204 for one that Spark does not know, or that a server refuses."""
        unknown = self._run(lambda: [key for key in settings if not is_modifiable(self.spark, key)])
        if unknown:
            message = f"`config`: sessions of this Spark cannot change {', '.join(f'`{key}`' for key in unknown)}"
            raise RivetError("RVT-204", message)
        self._run(lambda: self._set(settings))

    def load(self, relation: Relation, projection: Projection | None = None) -> DataFrame:
        """Return a frame that reads ``relation`` in place; Arrow rows of this process are read now."""
        return self._run(
            lambda: self._adapter.analyzed(read(self._adapter, relation, projection, self._spool)), None, _OF_SOURCE
        )

    def load_separated(
        self, relation: Relation, projection: Projection | None = None
    ) -> tuple[DataFrame, DataFrame] | None:
        """Return the rows of CSV or JSON files, and the records that do not fit their columns."""

        def load() -> tuple[DataFrame, DataFrame] | None:
            separated = read_separated(self.spark, relation, projection)
            if separated is None:
                return None
            rows, records = separated
            return self._adapter.analyzed(rows), self._adapter.analyzed(records)

        return self._run(load, None, _OF_SOURCE)

    def register(self, name: str, frame: DataFrame) -> None:
        """Give ``frame`` a temporary view, seen by this session alone."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of temporary views."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """Return the lazy result of ``sql``."""
        return self._run(lambda: self._adapter.analyzed(self.spark.sql(sql, args=query_arguments(parameters))))

    @contextmanager
    def separating_errors(self) -> Iterator[None]:
        """Have Spark compute no common subexpression ahead, which could be one that a condition guards."""
        conf = self.spark.conf
        before = self._run(lambda: {key: conf.get(key, usual) or usual for key, (usual, _) in _SEPARATING.items()})
        self._run(lambda: self._set({key: value for key, (_, value) in _SEPARATING.items()}))
        try:
            yield
        finally:
            self._run(lambda: self._set(before))

    def union_by_name(self, frames: Sequence[DataFrame]) -> DataFrame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        return self._run(lambda: self._adapter.analyzed(union_of(frames)))

    def columns(self, frame: DataFrame) -> tuple[tuple[str, str], ...]:
        """Return names and types, as Spark's SQL writes them."""
        return tuple((field.name, sql_type(field.dataType)) for field in self._run(lambda: frame.schema).fields)

    def schema(self, frame: DataFrame) -> str:
        """Return the JSON of its StructType."""
        return self._run(lambda: frame.schema.json())

    def explain(self, frame: DataFrame) -> Callable[[], QueryPlan]:
        """Return a function that returns Spark's plan of the next write, and the URL of its page in Spark's UI."""
        self._tag_of_write = ""
        plan = self._adapter.explain(frame, lambda: self._tag_of_write)
        return lambda: self._run(plan)

    def observe(self, frame: DataFrame, conditions: Sequence[str]) -> Observed | None:
        """Observe by Spark's ``Observation``.

        One sum for each condition counts the rows until the condition is true for one, and is NaN then: Spark evaluates
        what ``count_if`` counts twice for each row.
        """
        from pyspark.sql import Observation
        from pyspark.sql.functions import expr

        observation = Observation()
        aggregates = [f"sum(if({sql}, CAST('NaN' AS DOUBLE), 1D))" for sql in conditions]

        def observe() -> DataFrame:
            observed = frame.observe(observation, *[expr(sql).alias(f"_{n}") for n, sql in enumerate(aggregates)])
            observed.schema  # noqa: B018  a server analyzes the conditions for it
            return observed

        def result() -> list[int | None]:
            sums = self._run(lambda: self._adapter.observed(observation))
            found = [sums[f"_{n}"] or 0 for n in range(len(sums))]  # the sum of no row is NULL
            return [None if math.isnan(each) else int(each) for each in found]

        try:
            observed = self._run(observe)
        except EngineUnusable:
            raise
        except RivetError:  # the query of the check says why it cannot be analyzed
            return None
        return Observed(observed, result)

    def stores_exactly(self) -> bool:
        """Return False if moments are cut off at milliseconds, or days go by the calendar of before 1582."""
        conf = self.spark.conf
        return self._run(lambda: all(conf.get(key, None) != inexact for key, inexact in _INEXACT.items()))

    def write(
        self,
        frame: DataFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Write the rows in one Spark SQL execution. Raises RVT-316 for columns of the same name."""
        self._tag_of_write = self._tag_of_write or f"{self._tag}-{self._actions + 1}"
        self._run(lambda: write(self._adapter, frame, target, split_by, mode), progress=progress)

    def execute(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Run a statement of Spark SQL, which Spark does not delay until its result is used. Raises RVT-502."""
        self._run(lambda: refuse_audit_settings(self.spark))
        self._run(lambda: self.spark.sql(sql, args=query_arguments(parameters)), progress=progress)

    def run_tasks(
        self,
        frame: DataFrame,
        task: Callable[[Iterator[pa.RecordBatch]], bytes],
        most: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> list[bytes]:
        """Call ``task`` in the tasks of Spark's executors, in one Spark SQL execution."""
        self._tag_of_write = self._tag_of_write or f"{self._tag}-{self._actions + 1}"
        return self._run(lambda: run_tasks(frame, task, most), progress=progress)

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone."""
        return self._run(lambda: collect_rows(self.spark.sql(sql, args=query_arguments(parameters))), timeout)

    def batches(self, frame: DataFrame) -> pa.RecordBatchReader:
        """Return the rows as Spark computes them, one Spark partition after the other."""
        import pyarrow as pa

        schema = nullable(arrow_schema(self._run(lambda: frame.schema)))
        return pa.RecordBatchReader.from_batches(schema, self._batches(frame, schema))

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """Return all rows, in one Spark SQL execution."""
        rows: pa.Table = self._run(frame.toArrow)
        return rows.cast(nullable(rows.schema))

    def from_value(self, value: Any) -> DataFrame | None:
        """Return a frame over a Spark, pandas or polars frame, pyarrow Table, RecordBatch or RecordBatchReader."""
        remediation = "Return columns of types that Spark has."
        return self._run(lambda: frame_of(self._adapter, value, self._spool), None, remediation)

    def expect_few_rows(self) -> None:
        """Have Spark compute each query in few tasks, and without compiling code for it."""
        self._run(lambda: self._set({k: v for k, v in _FEW_ROWS.items() if is_modifiable(self.spark, k)}))

    def close(self) -> None:
        """End the session with its views, and cancel actions that still run; the application continues to run."""
        if self._closed:
            return
        self._closed = True
        # If Spark has died there is nothing to drop, and its own error is the one that the user must see.
        if not self._adapter.is_stopped:
            with suppress(Exception):
                self._adapter.cancel(self._tag)
                if self._adapter.keeps_views:
                    self._views.clear()
                self._adapter.close()
        self._spool.close()

    def _set(self, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            self.spark.conf.set(key, value)

    def _bind(self, name: str, frame: DataFrame) -> None:
        self._adapter.adopted(frame).createOrReplaceTempView(name)

    def _unbind(self, name: str) -> None:
        self.spark.catalog.dropTempView(name)

    def _batches(self, frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        tag = self._next_tag()

        def tagged() -> Iterator[pa.RecordBatch]:
            self._adapter.begin(self._tag, tag)
            return self._adapter.batches(frame)

        unbounded = BatchQueue(self._spool.new_file()) if self._adapter.drops_slow_readers else None
        with self._translated(), closing(unbounded) if unbounded else nullcontext():
            self._check_interrupt()
            for batch in stream(tagged, lambda: self._adapter.cancel(tag), self._check_interrupt, unbounded):
                yield batch.cast(schema)

    def _next_tag(self) -> str:
        self._actions += 1
        return f"{self._tag}-{self._actions}"

    def _run(
        self,
        action: Callable[[], T],
        timeout: float | None = None,
        remediation: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> T:
        tag = self._next_tag()

        def tagged() -> T:
            self._adapter.begin(self._tag, tag)
            return action()

        with self._translated(remediation):
            self._check_interrupt()
            with report_progress(progress, self._adapter.listen, tag) if progress else nullcontext(_nothing) as report:

                def tick() -> None:
                    self._check_interrupt()
                    report()

                return wait_for(tagged, lambda: self._adapter.cancel(tag), timeout, tick=tick)

    @contextmanager
    def _translated(self, remediation: str | None = None) -> Iterator[None]:
        """Turn exceptions of Spark in the block into RivetErrors."""
        try:
            yield
        except Exception as error:
            translated = self._error(error, remediation)
            if translated is None:
                raise
            raise self._adapter.lost() or translated from error

    def _error(self, error: Exception, remediation: str | None) -> RivetError | None:
        return spark_error(error, remediation)


def _nothing() -> None:
    """Do nothing: a report without a listener, a check without an interrupt."""


_LITERALS = {
    "tinyint": "{}Y",
    "smallint": "{}S",
    "bigint": "{}L",
    "decimal": "{:f}BD",
    "date": "DATE '{}'",
    "timestamp": "TIMESTAMP_LTZ '{}'",
    "timestamp_ntz": "TIMESTAMP_NTZ '{}'",
}
"""Templates of literals for types that Spark would not infer from a Python value."""


def query_arguments(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the ``args`` for ``SparkSession.sql``; None without parameters."""
    if not parameters:
        return None
    return {name: _column(value) if isinstance(value, Typed) else value for name, value in parameters.items()}


def _column(typed: Typed) -> Any:
    from pyspark.sql import functions

    literal = literal_of(typed)
    return functions.lit(typed.value) if literal is None else functions.expr(literal)


def literal_of(typed: Typed) -> str | None:
    """Return the literal of a value whose type pyspark would not infer, else None.

    >>> literal_of(Typed(5, "bigint")), literal_of(Typed(5, "int"))
    ('5L', None)
    """
    form = _LITERALS.get(typed.type.partition("(")[0])
    return None if form is None else form.format(typed.value)


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of all frames, by halves: Spark's analyzer goes down one level for each union in a union."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union_of(frames[:middle]).unionByName(union_of(frames[middle:]))
