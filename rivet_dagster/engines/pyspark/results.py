"""Rows and types of Spark's frames as plain Python values, names in Spark's SQL and Arrow schemas.

The plan by which Spark computed a query.

In an application of this process it is read from Spark's SQL status store after the query ran: EXPLAIN would plan the
query a second time, which for ten joints costs more than all else that a run adds to its query. Over Connect that store
is not available, so the server is asked with EXPLAIN.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC
from inspect import signature
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX
from rivet_dagster.model.schema import field_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def sql_type(type_: DataType) -> str:
    """Return the type as SQL writes it: Spark's ``simpleString``, with quotes around names of fields that need them."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match type_:
        case StructType():
            fields = ",".join(f"{field_name(field.name)}:{sql_type(field.dataType)}" for field in type_.fields)
            return f"struct<{fields}>"
        case ArrayType():
            return f"array<{sql_type(type_.elementType)}>"
        case MapType():
            return f"map<{sql_type(type_.keyType)},{sql_type(type_.valueType)}>"
    return type_.simpleString()


def collect_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return all rows of a small frame; a TIMESTAMP as a datetime in UTC, a TIMESTAMP_NTZ as a naive one."""
    # Not toArrow(): if the driver runs out of memory in it, Spark 4.1 never returns.
    fields = frame.schema.fields
    return [
        {field.name: _plain(value, field.dataType) for field, value in zip(fields, row, strict=True)}
        for row in frame.collect()
    ]


def _plain(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    match type_.typeName():
        case "timestamp":  # pyspark returns it naive, in the time zone of this process
            return value.astimezone(UTC)
        case "array":
            return [_plain(item, type_.elementType) for item in value]
        case "map":
            return {_plain(k, type_.keyType): _plain(v, type_.valueType) for k, v in value.items()}
        case "struct":
            return {f.name: _plain(v, f.dataType) for f, v in zip(type_.fields, value, strict=True)}
    return value


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema as Arrow has it, as in the result of ``toArrow``: a TIMESTAMP is in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # From Spark 4.2 on the time zone must be named; before, it is UTC, and the parameter does not exist.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def columns_of_arrow(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """Return the names and types that columns of Arrow have in Spark; a timestamp without a zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_type

    return tuple((field.name, sql_type(from_arrow_type(field.type, prefer_timestamp_ntz=True))) for field in schema)


_LATEST = 20
_SECONDS = 1.0


def plan_of_execution(spark: SparkSession, tag: str) -> QueryPlan:
    """Return the final plan of the query that ran under ``tag``, and the URL of its page in Spark's UI."""
    context: Any = spark.sparkContext
    jobs = set(context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    store = spark._jsparkSession.sharedState().statusStore()
    deadline = time.monotonic() + _SECONDS  # the store is filled a moment after the query ran
    while True:
        count = store.executionsCount()
        for position in range(count - 1, max(count - 1 - _LATEST, -1), -1):
            execution = store.executionsList(position, 1).apply(0)
            if any(execution.jobs().contains(job) for job in jobs):
                page = f"{context.uiWebUrl}/SQL/execution/?id={execution.executionId()}" if context.uiWebUrl else None
                return QueryPlan(execution.physicalPlanDescription().strip(), page)
        if time.monotonic() > deadline:
            return QueryPlan("Spark has not recorded the plan", context.uiWebUrl)
        time.sleep(0.02)


def plan_requested(spark: SparkSession, frame: DataFrame) -> Callable[[], QueryPlan]:
    """Request the plan of ``frame`` in a thread of its own; the returned function waits for it."""
    plan: Future[str] = Future()

    def work() -> None:
        view = f"rivet_{uuid.uuid4().hex}"
        try:
            frame.createTempView(view)
            plan.set_result(spark.sql(f"EXPLAIN FORMATTED SELECT * FROM {view}").collect()[0][0])
        except Exception as error:
            plan.set_exception(error)

    threading.Thread(target=work, name=f"{THREAD_PREFIX}explain", daemon=True).start()
    return lambda: QueryPlan(plan.result().strip())
