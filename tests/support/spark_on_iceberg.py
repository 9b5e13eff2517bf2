"""A table of an Iceberg catalog ``hadoop`` to which Spark writes by plans, as the runs of a group do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.testing.plan_cases.runs import started_at
from rivet_dagster.testing.tables import TABLE, rows_of, write
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, lake
from support.joint_by_joint import QUICK


class WrittenTable:
    """The table, which each call of ``write`` publishes anew, and PyIceberg's view of it."""

    def __init__(self, iceberg_session: Callable[..., PySparkSession], root: Path) -> None:
        options = declared("hadoop", root / "lake")
        self.catalog, self.session = lake(options, root), iceberg_session(lake=options)
        for name, value in QUICK.items():
            self.session.spark.conf.set(name, value)
        self._plain = connect_catalog("plain", options, root)
        self.runs = 0

    def table(self) -> Table:
        return self._plain.load_table((NAMESPACE, TABLE))

    def write(self, plan: WritePlan, rows: Sequence[tuple[Any, ...]], columns: str) -> tuple[int | None, int | None]:
        """Write rows in the next run, and return how many were inserted and updated, as the version has it."""
        self.runs += 1
        published = write(self.catalog, self.session, plan, rows, str(self.runs), started_at(self.runs), columns)
        return published.record.inserted, published.record.updated

    def rows(self) -> list[tuple[Any, ...]]:
        return rows_of(self.catalog, self.session)
