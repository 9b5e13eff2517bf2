"""The one Spark application of a test process: its settings, and its SQL executions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from support.torture import TORTURE

MASTER = "local[2]"
REMOTE = "RIVET_TEST_REMOTE"
"""The environment variable with the address of a server of Spark Connect, where tests are to run on one."""


QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseParallelGC"
"""Only the JVM's quick compiler, since the other does not pay for many short queries, with room for all their code.

And a garbage collector without background work, since tests have two cores at best.
"""

WITHOUT_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Settings with which Spark interprets queries, which a query over a few rows ends sooner with than with code.

The tests of ``make torture`` have none of them.
"""
WITH_CODE = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": True}
"""Spark's own settings, for queries over many rows, and where it matters how Spark evaluates expressions."""

OF_PARSER = {"spark.sql.parser.manageParserCaches": True, "spark.sql.parser.parserDfaCacheFlushThreshold": 15_000}
"""Settings that bound what the parser of Spark 4.1 keeps, which grows with each random expression."""

OF_STORES = {
    "spark.sql.ui.retainedExecutions": 200,
    "spark.ui.retainedJobs": 200,
    "spark.ui.retainedStages": 200,
    "spark.ui.retainedTasks": 1_000,
}
"""Settings that bound what Spark remembers of queries that have ended, which else is half of the heap."""

UNUSED_DEFAULTS = (
    *("yarn.", "mapreduce.jobhistory.", "mapreduce.reduce.", "mapreduce.shuffle.", "mapreduce.map.", "ipc.", "ha."),
    *("hadoop.http.", "hadoop.registry.", "hadoop.ssl.", "hadoop.zk.", "fs.viewfs.", "fs.ftp.", "fs.azure.", "fs.adl."),
)
"""Prefixes of Hadoop's settings, 759 of 1,076, that no file system and no format of these tests reads."""

OF_PROCESSES = QUICK if TORTURE else " ".join([QUICK, *(f"-D{name}={value}" for name, value in WITHOUT_CODE.items())])
"""The Java options of all drivers of Spark that tests start, for which system properties are settings."""

OF_SESSIONS = frozenset({"spark.sql.shuffle.partitions", "spark.sql.session.timeZone"})
"""Those of the settings that a client of a server has, too."""
OF_SAIL = frozenset({"spark.sql.session.timeZone"})
"""Those that a session of Sail has."""
SAIL_SERVER = "RIVET_TEST_SAIL"
"""The environment variable with the folder of the files of the Sail server that projects of the tests share."""


def settings(place: Path) -> dict[str, Any]:
    """Return settings with small resources, and all files below ``place``."""
    return {
        "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.memory": "1500m",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        **({} if TORTURE else WITHOUT_CODE),
        **OF_PARSER,
        **OF_STORES,
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place / 'derby'} {QUICK} -Xmn900m",
    }


def where() -> dict[str, str]:
    """Return the options of an engine that tell where Spark runs: here, or on a server of Spark Connect."""
    return {"remote": os.environ[REMOTE]} if REMOTE in os.environ else {"master": MASTER}


def of_sessions() -> frozenset[str]:
    """Return the names of the settings that sessions on the server of the tests have."""
    return OF_SAIL if on_sail() else OF_SESSIONS


def on_sail() -> bool:
    """Return whether tests are to run on Sail."""
    return os.environ.get(REMOTE) == "sail"


def share_sail(root: Path) -> None:
    """Have the project in ``root`` find the Sail server that all projects of the tests share."""
    link = root / ".rivet" / "sail"
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.environ[SAIL_SERVER], target_is_directory=True)


def without_unused_defaults(spark: Any) -> None:
    """Forget defaults of Hadoop in this JVM: each job sends all its settings, most of which serve none of its work."""
    jvm = spark._jvm
    jvm.java.lang.Class.forName("org.apache.hadoop.mapred.JobConf")  # which loads them
    hadoop = spark._jsc.hadoopConfiguration()
    for prefix in UNUSED_DEFAULTS:
        for name in list(hadoop.getPropsWithPrefix(prefix)):
            hadoop.unset(f"{prefix}{name}")


class SqlExecutions:
    """Counts SQL executions: an action is one, with any number of jobs; registering a view is none."""

    def __init__(self, spark: Any) -> None:
        self._context = spark._jsparkSession.sparkContext()
        self._store = spark._jsparkSession.sharedState().statusStore()
        self._context.listenerBus().waitUntilEmpty()
        self._last = max((execution.executionId() for execution in self._latest(1)), default=-1)

    def since(self) -> int:
        """Return the number of executions since the last call."""
        self._context.listenerBus().waitUntilEmpty()
        latest = self._latest(100)
        found = [execution for execution in latest if execution.executionId() > self._last]
        assert len(found) < 100, "there may have been more"
        self._last = max((execution.executionId() for execution in found), default=self._last)
        return sum(not execution.jobs().isEmpty() for execution in found)

    def _latest(self, most: int) -> list[Any]:
        """Return the last executions in Spark's store, which removes old ones at any time."""
        while True:
            count = self._store.executionsCount()
            found = self._store.executionsList(max(0, count - most), most)
            if self._store.executionsCount() == count:
                return [found.apply(position) for position in range(found.size())]
