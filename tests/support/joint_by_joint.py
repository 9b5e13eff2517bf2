"""The reference for fusing: each joint's own SQL, run alone on the stored results of its upstream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.reading.inputs import frames
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import render_whole
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from support.projects import compile_joints
from support.spark import MASTER

QUICK = {
    "spark.sql.adaptive.enabled": False,
    "spark.sql.autoBroadcastJoinThreshold": -1,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.leafNodeDefaultParallelism": 1,
    # A rule other than the one that the engine excludes has a defect in Spark 4.1: "key not found" where a
    # correlated subquery stands over a UNION ALL of one table with itself, in a single plain query as well.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion,"
    "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.ui.explainMode": "simple",
}
"""Settings with which a query on five rows takes a third of the time, and Spark parses all queries of the tests."""


@dataclass(frozen=True)
class Table:
    """Computed rows, stored in Spark's process."""

    rows: Any
    schema: Any

    @classmethod
    def of(cls, frame: Any) -> Table:
        """Collect the rows of a frame."""
        return cls(frame._jdf.collectAsList(), frame._jdf.schema())

    def frame(self, spark: Any) -> Any:
        """Return the rows as a frame of ``spark`` that computes nothing."""
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(spark._jsparkSession.createDataFrame(self.rows, self.schema), spark)

    def shown(self) -> list[str]:
        """Return each row as text, sorted."""
        return sorted(row.toString() for row in self.rows)

    def same_as(self, other: Table) -> bool:
        """Return whether both have the same rows, each as often, in columns of the same names and types."""
        if self.columns() != other.columns():
            return False
        return self.rows.toString() == other.rows.toString() or self.shown() == other.shown()

    def columns(self) -> list[str]:
        """Return names and types, without nullability, which fusing may change."""
        return [f"{field.name()} {field.dataType().sql()}" for field in self.schema.fields()]


class Both:
    """Runs the same joints in both ways on one Spark; ``spark`` makes sessions and has the engine's tables."""

    def __init__(self, spark: Any, settings: Mapping[str, Any] | None = None) -> None:
        self.spark = spark
        self.settings = dict(QUICK if settings is None else settings)

    def table(self, sql: str) -> Table:
        """Return the rows of a query."""
        return Table.of(self._session().sql(sql))

    def values(self, table: Table) -> list[tuple[Any, ...]]:
        """Return the rows as Python values, sorted by their texts."""
        return sorted((tuple(row) for row in table.frame(self.spark).collect()), key=str)

    def one_by_one(self, joints: Iterable[Joint], given: Mapping[str, Table]) -> dict[str, Table]:
        """Return the rows of every joint; ``joints`` are in topological order."""
        session = self._session()
        stored = dict(given)
        for name, table in given.items():
            table.frame(session).createOrReplaceTempView(f"`{name}`")
        for joint in joints:
            if joint.type == SOURCE:
                continue
            if joint.type == SINK:
                parts = [stored[name].frame(session) for name in joint.upstream or ()]
                frame = reduce(lambda one, other: one.unionByName(other), parts)
            else:
                frame = session.sql(joint.sql)
            stored[joint.name] = Table.of(frame)
            stored[joint.name].frame(session).createOrReplaceTempView(f"`{joint.name}`")
        return stored

    def fused(self, plan: CompiledAssembly, given: Mapping[str, Table]) -> dict[str, Table]:
        """Return the rows of each group's exit, computed like a run of the plan; a group sees only its inputs."""
        runtime = self.runtime(plan)
        stored = dict(given)
        for group in (plan.group(name) for name in plan.execution_order):
            if plan.joint(group.exit).type == SOURCE:
                continue
            session = runtime.engine(group.engine).session()
            outside = {*group.inputs, *(n for n in group.joints if plan.joint(n).type == SOURCE)}
            handles = {name: _handle(name, stored[name]) for name in outside}
            found = frames(runtime, render_whole(group, group.exit), session, handles)
            stored[group.exit] = Table.of(found[0] if len(found) == 1 else session.union_by_name(found))
            session.close()
        return stored

    def runtime(self, plan: CompiledAssembly) -> Runtime:
        """Return a runtime of the plan on this Spark."""
        options = {"master": MASTER, "config": self.settings}
        engines = tuple(replace(engine, options=options) for engine in plan.engines)
        # One Spark represents all engines of the plan, so no rows pass between engines.
        plan = replace(plan, engines=engines, engine_boundaries=())
        return Runtime(plan, Path(), {engine.name: lambda: self.spark for engine in engines}, {})

    def _session(self) -> Any:
        session = self.spark.newSession()
        for key, value in self.settings.items():
            session.conf.set(key, value)
        return session


def compiled(joints: Iterable[Joint], **options: Any) -> CompiledAssembly:
    """Compile the joints; raise their errors."""
    return compile_joints(*joints, **options).raise_errors()


def _handle(name: str, table: Table) -> MaterializedRef:
    return MaterializedRef(name, _nowhere, lambda session: table.frame(session.spark))


def _nowhere() -> Any:
    raise AssertionError("a session was asked for where one was given")
