"""How Spark computed a query.

In this process's application from what Spark noted when it ran: to ask for the plan again would take a second planning,
which for ten joints costs more than all else that a run adds to its query. Over Connect there are no such notes.
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


def noted(spark: SparkSession, tag: str) -> QueryPlan:
    """The plan of the query that ran under ``tag``, as it was in the end, and its page."""
    context: Any = spark.sparkContext
    jobs = set(context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    store = spark._jsparkSession.sharedState().statusStore()
    deadline = time.monotonic() + _SECONDS  # Spark takes its notes a moment after it ran
    while True:
        count = store.executionsCount()
        for position in range(count - 1, max(count - 1 - _LATEST, -1), -1):
            execution = store.executionsList(position, 1).apply(0)
            if any(execution.jobs().contains(job) for job in jobs):
                page = f"{context.uiWebUrl}/SQL/execution/?id={execution.executionId()}" if context.uiWebUrl else None
                return QueryPlan(execution.physicalPlanDescription().strip(), page)
        if time.monotonic() > deadline:
            return QueryPlan("Spark has not noted it", context.uiWebUrl)
        time.sleep(0.02)


def asked(spark: SparkSession, frame: DataFrame) -> Callable[[], QueryPlan]:
    """Ask for the plan of ``frame`` in a thread beside whatever comes next; calling what this returns waits for it."""
    found: Future[str] = Future()

    def work() -> None:
        view = f"rivet_{uuid.uuid4().hex}"
        try:
            frame.createTempView(view)
            found.set_result(spark.sql(f"EXPLAIN FORMATTED SELECT * FROM {view}").collect()[0][0])
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=work, name=f"{THREAD_PREFIX}explain", daemon=True).start()
    return lambda: QueryPlan(found.result().strip())
