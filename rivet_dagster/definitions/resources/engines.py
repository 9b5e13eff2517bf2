"""Engines as Dagster resources: those that their plugins describe, each made by whoever needs it first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plan_json import read, write
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.engines.registry import concurrency_limit, engine_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import Watch
from rivet_dagster.execution.runtime import Runtime, reached
from rivet_dagster.model.profile import EngineSpec

ENGINE_TAG = "rivet/engine"
"""The tag of a step that tells its engine; no other steps have it."""


def engine_key(engine: str) -> str:
    """The resource key of an engine."""
    return f"rivet_engine_{engine}"


def engine_pool(engine: str) -> str:
    """The pool of an engine's steps; the instance limits how many of them run at once, over all runs."""
    return f"rivet_{engine}"


def engine_keys(assembly: CompiledAssembly) -> set[str]:
    """The resource keys of all engines that connect through a Dagster resource."""
    return {engine_key(spec.name) for spec in assembly.engines if engine_class(spec.type).resource is not None}


def engine_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """The resources that the engines of the profile connect through, by resource key."""
    assembly, keys = project.assembly, engine_keys(project.assembly)
    return {
        engine_key(spec.name): _engine_resource(write(_part(assembly, spec)), project.root)
        for spec in assembly.engines
        if engine_key(spec.name) in keys
    }


def open_runtime(
    project: RivetProject,
    resources: Any,
    watches: Sequence[Watch] = (),
    check_interrupt: Callable[[], None] | None = None,
) -> Runtime:
    """Open the runtime of a step, its engines connected through the step's resources.

    What ``check_interrupt`` raises stops it.
    """

    def connect(key: str, attribute: str) -> Callable[[], Any]:
        return lambda: getattr(getattr(resources, key), attribute)

    connects = {
        spec.name: connect(engine_key(spec.name), resource.connection)
        for spec in project.assembly.engines
        if (resource := engine_class(spec.type).resource) is not None
    }
    return Runtime(project.assembly, project.root, connects, watches=watches, check_interrupt=check_interrupt)


def rivet_executor(project: RivetProject) -> dg.ExecutorDefinition:
    """One process for a project on one embedded engine (a JVM starts once), else a process a step with limits."""
    engines = project.assembly.engines
    if len(engines) == 1 and engine_class(engines[0].type).embedded(engines[0]):
        return dg.in_process_executor
    limits = {spec.name: concurrency_limit(spec) for spec in engines}
    return _limited_executor(tuple(limits.items()))


class _WrongEngine:
    """Stands for an engine whose options are wrong: Dagster shows an error of a step better than one of a resource."""

    def __init__(self, error: RivetError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        """Raise what is wrong, whatever the connection is called."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error


def _part(assembly: CompiledAssembly, engine: EngineSpec) -> CompiledAssembly:
    """The part of the plan that says what an engine is: its declaration, and the catalogs that it reaches."""
    names = reached(assembly, engine)
    catalogs = tuple(spec for spec in assembly.catalogs if spec.name in names)
    return CompiledAssembly(profile="", engines=(engine,), catalogs=catalogs, workspace=assembly.workspace)


# Definitions can only be merged where what has one key is one object: those of two parts of a project are.
@cache
def _limited_executor(limits: tuple[tuple[str, int], ...]) -> dg.ExecutorDefinition:
    tags = [{"key": ENGINE_TAG, "value": engine, "limit": limit} for engine, limit in limits]
    return dg.multiprocess_executor.configured({"tag_concurrency_limits": tags})


@cache
def _engine_resource(declared: str, root: Path) -> dg.ResourceDefinition:
    """The resource of the one engine of a plan, which is declared so, as JSON."""
    plan: CompiledAssembly = read(CompiledAssembly, json.loads(declared))
    (spec,) = plan.engines

    def make(_: dg.InitResourceContext) -> Any:
        described = engine_class(spec.type).resource
        assert described is not None
        try:
            engine = Runtime(plan, root).engine(spec.name)
        except RivetError as error:
            return _WrongEngine(error)
        # Imported here, not while definitions load: that of Spark imports pyspark.
        module, name = described.class_path.split(":")
        return getattr(import_module(module), name)(**engine.resource_arguments())

    return dg.ResourceDefinition(resource_fn=make, description=f"Connection of the engine '{spec.name}'")
