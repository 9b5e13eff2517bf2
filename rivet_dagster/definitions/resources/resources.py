"""Engines as Dagster resources: dagster-pyspark's lazy session, started by whoever needs it first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plan_json import read, write
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.engines.registry import concurrency_limit, engine_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import Watch
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.profile import EngineSpec

ENGINE_TAG = "rivet/engine"
"""The tag of a step that tells its engine; no other steps have it."""


def engine_key(engine: str) -> str:
    """The resource key of an engine."""
    return f"rivet_engine_{engine}"


def engine_pool(engine: str) -> str:
    """The pool of an engine's steps; the instance limits how many of them run at once, over all runs."""
    return f"rivet_{engine}"


def engine_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """One resource for each engine of the profile, by resource key."""
    return {engine_key(spec.name): _engine_resource(write(spec)) for spec in project.assembly.engines}


def open_runtime(
    project: RivetProject, resources: Any, watches: Sequence[Watch] = (), heed: Callable[[], None] | None = None
) -> Runtime:
    """The runtime of a step, its engines connected through the step's resources; what ``heed`` raises stops it."""

    def connect(key: str) -> Callable[[], Any]:
        return lambda: getattr(resources, key).spark_session

    connects = {spec.name: connect(engine_key(spec.name)) for spec in project.assembly.engines}
    return Runtime(project.assembly, project.root, connects, watches=watches, heed=heed)


def rivet_executor(project: RivetProject) -> dg.ExecutorDefinition:
    """One process for a project on one embedded engine (a JVM starts once), else a process a step with limits."""
    engines = project.assembly.engines
    if len(engines) == 1 and engine_class(engines[0].type).embedded(engines[0]):
        return dg.in_process_executor
    limits = {spec.name: concurrency_limit(spec) for spec in engines}
    return _limited_executor(tuple(limits.items()))


@dataclass(frozen=True)
class _WrongEngine:
    """Stands for an engine whose options are wrong: Dagster shows an error of a step better than one of a resource."""

    error: RivetError

    @property
    def spark_session(self) -> Any:
        """Raise what is wrong."""
        raise self.error


# Definitions can only be merged where what has one key is one object: those of two parts of a project are.
@cache
def _limited_executor(limits: tuple[tuple[str, int], ...]) -> dg.ExecutorDefinition:
    tags = [{"key": ENGINE_TAG, "value": engine, "limit": limit} for engine, limit in limits]
    return dg.multiprocess_executor.configured({"tag_concurrency_limits": tags})


@cache
def _engine_resource(declared: str) -> dg.ResourceDefinition:
    """The resource of the engine that is declared so, as JSON."""
    spec: EngineSpec = read(EngineSpec, json.loads(declared))

    def make(_: dg.InitResourceContext) -> Any:
        # dagster_pyspark imports pyspark: not while definitions load.
        from dagster_pyspark import LazyPySparkResource

        try:
            engine = Runtime(CompiledAssembly(profile="", engines=(spec,)), Path()).engine(spec.name)
        except RivetError as error:
            return _WrongEngine(error)
        return LazyPySparkResource(spark_config=dict(engine.session_config()))

    return dg.ResourceDefinition(resource_fn=make, description=f"Spark session of the engine '{spec.name}'")
