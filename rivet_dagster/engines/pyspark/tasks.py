"""Functions of this process that Spark's executors call with the rows of a query, as Arrow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.pyspark.relations.files import refuse_unstorable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_RESULT = "rivet_result"


def run_tasks(frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], bytes], most: int) -> list[bytes]:
    """Return what ``task`` returns for each of at most ``most`` partitions of the frame.

    The result of a task attempt is a row of the query, so that Spark itself says which attempts count.
    """
    from pyspark import cloudpickle

    refuse_unstorable(frame)
    # By value: executors have the packages of the cluster, not this one.
    for module in {run_tasks.__module__, *_modules(task)}:
        cloudpickle.register_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]
    rows = frame.coalesce(most).mapInArrow(partial(_call, task), f"{_RESULT} binary").collect()
    return [bytes(row[_RESULT]) for row in rows]


def _modules(function: Any) -> Iterator[str]:
    """Yield the modules of a function and, if it is a partial one, of the functions among its arguments."""
    if isinstance(function, partial):
        for each in (function.func, *function.args):
            yield from _modules(each) if callable(each) else ()
    else:
        yield str(function.__module__)


def _call(task: Callable[[Iterator[Any]], bytes], batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.RecordBatch.from_arrays([pa.array([task(batches)], pa.binary())], names=[_RESULT])
