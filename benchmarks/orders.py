"""Orders to be written to tables, and batches of changes: 1% of them, spread over all keys, others in each round."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

_ROWS = """
SELECT id, id % 50000 + 1 AS customer, CAST(id % 97 AS INT) AS quantity,
       CAST((id * 7919 + {change}) % 1000000 / 100 AS DECIMAL(12, 2)) AS price,
       DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered,
       element_at(array('open', 'paid', 'sent', 'closed'), CAST(id % 4 AS INT) + 1) AS status,
       concat('c', id % 50000, '@example.org') AS email{further}
FROM range(0, {rows}, 1, 4) WHERE {where}
"""

COLUMNS = ("id", "customer", "quantity", "price", "ordered", "status", "email")


class Orders:
    """So many ``rows`` of orders as files of Parquet in ``folder``.

    ``further`` columns are SQL, by name, in which ``{change}`` stands for the number of the change.
    """

    def __init__(self, spark: Any, folder: Path, rows: int, **further: str) -> None:
        self.spark = spark
        self.folder = folder
        self.rows = rows
        self.further = "".join(f", {sql} AS {name}" for name, sql in further.items())

    def write(self, path: Path, where: str = "TRUE", change: int = 0) -> None:
        """Write the orders for which ``where`` holds; ``change`` is a number of which their prices depend."""
        further = self.further.format(change=change)
        sql = _ROWS.format(rows=self.rows, where=where, change=change, further=further)
        self.spark.sql(sql).write.mode("overwrite").parquet(str(path))

    def batch(self, number: int) -> Path:
        """The folder of the batch of a round, counted from one."""
        return self.folder / f"batches/{number}.parquet"

    def write_batches(self, rounds: int) -> None:
        """Write the batches of so many rounds."""
        for number in range(1, rounds + 1):
            self.write(self.batch(number), where=f"id % 100 = {number}", change=number)


def run(runtime: Runtime, table: str) -> GroupResult:
    """The product's own run of the group of a table."""
    group = runtime.assembly.group(table)
    return run_group(runtime, group.name, group.joints, str(uuid.uuid4()))


def differing(spark: Any, one: str, other: str) -> int:
    """The number of rows that are in the result of one query alone."""
    found: int = spark.sql(f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})").count()
    return found
