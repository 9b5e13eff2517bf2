"""The one Spark session of a benchmark: all contenders run on it, and the product's engine does too."""

from __future__ import annotations

import os
import time
from typing import Any

from rivet_dagster.execution.runtime import Runtime

ENGINE = "spark"


def shared_session(runtime: Runtime) -> Any:
    """The session of the process, begun at the first call with the settings of the project's engine."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    for key, value in runtime.engine(ENGINE).session_config().items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_spark(runtime: Runtime) -> Any:
    """The shared session, started by the product, which looks for a Java that Spark runs on."""
    runtime.engine(ENGINE).session().close()
    return shared_session(runtime)


def cpu_seconds(spark: Any) -> float:
    """What this process and its JVM have used so far, all threads together."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get().toMillis()
    return time.process_time() + float(jvm) / 1000


def load() -> str:
    """The load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"
