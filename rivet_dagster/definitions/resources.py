"""Engines as Dagster resources: dagster-pyspark's lazy session, started by whoever needs it first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.execution.progress import Watch
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.profile import EngineSpec

ENGINE_TAG = "rivet/engine"
"""The tag of a step that tells its engine; no other steps have it."""


def engine_key(engine: str) -> str:
    """The resource key of an engine."""
    return f"rivet_engine_{engine}"


def engine_resources(assembly: CompiledAssembly, root: Path) -> dict[str, dg.ResourceDefinition]:
    """One resource for each engine of the profile, by resource key."""
    return {engine_key(spec.name): _engine_resource(spec, assembly, root) for spec in assembly.engines}


def open_runtime(assembly: CompiledAssembly, root: Path, resources: Any, watches: Sequence[Watch] = ()) -> Runtime:
    """The runtime of a step, its engines connected through the step's resources."""

    def connect(key: str) -> Callable[[], Any]:
        return lambda: getattr(resources, key).spark_session

    connects = {spec.name: connect(engine_key(spec.name)) for spec in assembly.engines}
    return Runtime(assembly, root, connects, watches=watches)


def executor_for(assembly: CompiledAssembly) -> dg.ExecutorDefinition:
    """One process for a project on one embedded engine (a JVM starts once), else a process a step with limits."""
    engines = assembly.engines
    if len(engines) == 1 and engine_class(engines[0].type).embedded(engines[0]):
        return dg.in_process_executor
    limits = [
        {
            "key": ENGINE_TAG,
            "value": spec.name,
            "limit": spec.concurrency_limit or engine_class(spec.type).default_concurrency,
        }
        for spec in engines
    ]
    return dg.multiprocess_executor.configured({"tag_concurrency_limits": limits})


def _engine_resource(spec: EngineSpec, assembly: CompiledAssembly, root: Path) -> dg.ResourceDefinition:
    def make(_: dg.InitResourceContext) -> Any:
        # dagster_pyspark imports pyspark: not while definitions load.
        from dagster_pyspark import LazyPySparkResource

        return LazyPySparkResource(spark_config=dict(Runtime(assembly, root).engine(spec.name).session_config()))

    return dg.ResourceDefinition(resource_fn=make, description=f"Spark session of the engine '{spec.name}'")
