"""The one Spark application of a test process: its settings, and what it has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MASTER = "local[2]"


QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseParallelGC"
"""The JVM's quick compiler alone, since the other never pays for many short queries, with room for all their code.

And a collector of garbage that does nothing in between, since tests have two cores at best.
"""


def settings(place: Path) -> dict[str, Any]:
    """Little of everything, and nothing outside of ``place``."""
    return {
        "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place / 'derby'} {QUICK}",
    }


class SqlExecutions:
    """Counts what Spark runs: an action is one SQL execution, however many jobs it takes; naming a view takes none."""

    def __init__(self, spark: Any) -> None:
        self._context = spark._jsparkSession.sparkContext()
        self._store = spark._jsparkSession.sharedState().statusStore()
        self._last = -1
        self.since()

    def since(self) -> int:
        """How many there have been since the last call."""
        self._context.listenerBus().waitUntilEmpty()
        found = []
        for position in range(self._store.executionsCount() - 1, -1, -1):
            execution = self._store.executionsList(position, 1).apply(0)
            if execution.executionId() <= self._last:
                break
            found.append(execution)
        self._last = found[0].executionId() if found else self._last
        return sum(not execution.jobs().isEmpty() for execution in found)
