"""The plan by which Spark computed a query.

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
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
