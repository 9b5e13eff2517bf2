"""What Spark raises where it evaluates an expression for a row, and settings with which it does that at run time."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rivet_dagster.sql.row_errors.site import UNNAMED

SETTINGS = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}


def condition_of(error: PySparkException | Py4JError) -> str:
    """Return the condition of an exception; PySpark does not find that of all exceptions of the JVM."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    named = re.search(r"Exception: \[([A-Z0-9_.]+)\]", str(error).partition("Job aborted")[0])
    return condition or (named[1] if named else UNNAMED)
