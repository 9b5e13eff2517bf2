"""Engines as Dagster resources, pools and tags of steps, and the runtime that uses them."""

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
from rivet_dagster.definitions.runs.failure import raise_if_interrupted
from rivet_dagster.engines.registry import declared_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import ProgressListener
from rivet_dagster.execution.results import StagedBy
from rivet_dagster.execution.runtime import Runtime, reachable_catalogs
from rivet_dagster.model.profile import EngineSpec

ENGINE_TAG = "rivet/engine"
"""The tag of a step that names its engine; steps that use no engine do not have it."""


def engine_key(engine: str) -> str:
    """Return the resource key of an engine."""
    return f"rivet_engine_{engine}"


def engine_pool(engine: str) -> str:
    """Return the pool of an engine's steps; the instance limits how many of them run at once, across all runs."""
    return f"rivet_{engine}"


def engine_keys(assembly: CompiledAssembly) -> set[str]:
    """Return the resource keys of all engines that connect through a Dagster resource."""
    return {engine_key(spec.name) for spec in assembly.engines if declared_class(spec).resource is not None}


def engine_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """Return the resources through which the engines of the profile connect, by resource key."""
    assembly, keys = project.assembly, engine_keys(project.assembly)
    return {
        engine_key(spec.name): _engine_resource(write(_part(assembly, spec)), project.root)
        for spec in assembly.engines
        if engine_key(spec.name) in keys
    }


def open_runtime(
    project: RivetProject,
    resources: Any,
    run_id: str | None,
    listeners: Sequence[ProgressListener] = (),
    check_limit: Callable[[], None] | None = None,
    staged: StagedBy = lambda _: None,
) -> Runtime:
    """Return the runtime of a step of a run, whose engines connect through the step's resources.

    ``run_id`` is None outside of runs. ``listeners`` are told phases and the progress of writes. An exception that
    ``check_limit`` raises stops the step, as an interrupt of the run does. ``staged`` returns what the run has staged.
    """

    def connect(key: str, attribute: str) -> Callable[[], Any]:
        return lambda: getattr(getattr(resources, key), attribute)

    def check_interrupt() -> None:
        if run_id is not None:
            raise_if_interrupted(run_id)
        if check_limit is not None:
            check_limit()

    connects = {
        spec.name: connect(engine_key(spec.name), resource.connection)
        for spec in project.assembly.engines
        if (resource := declared_class(spec).resource) is not None
    }
    return Runtime(
        project.assembly,
        project.root,
        connects,
        listeners=listeners,
        check_interrupt=check_interrupt,
        environment=project.environment,
        staged=staged,
    )


class _WrongEngine:
    """Stands in for an engine with wrong options and raises in the step, whose errors Dagster shows better."""

    def __init__(self, error: RivetError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        """Raise the error, whatever the name of the connection is."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error


def _part(assembly: CompiledAssembly, engine: EngineSpec) -> CompiledAssembly:
    """Return the part of the plan that an engine's resource needs: the declarations of engine and catalogs."""
    names = reachable_catalogs(assembly, engine)
    catalogs = tuple(spec for spec in assembly.catalogs if spec.name in names)
    return CompiledAssembly(profile="", engines=(engine,), catalogs=catalogs, workspace=assembly.workspace)


# Definitions can only be merged if resources of one key are one object, as with the cache for parts of a project.
@cache
def _engine_resource(declared: str, root: Path) -> dg.ResourceDefinition:
    """Return the resource of the one engine of a plan, given as JSON so that equal plans share a cached resource."""
    plan: CompiledAssembly = read(CompiledAssembly, json.loads(declared))
    (spec,) = plan.engines

    def make(_: dg.InitResourceContext) -> Any:
        resource = declared_class(spec).resource
        assert resource is not None
        try:
            engine = Runtime(plan, root).engine(spec.name)
        except RivetError as error:
            return _WrongEngine(error)
        # Imported here, not while definitions are loaded: the resource of Spark imports pyspark.
        module, name = resource.class_path.split(":")
        return getattr(import_module(module), name)(**engine.resource_arguments())

    return dg.ResourceDefinition(resource_fn=make, description=f"Connection of the engine '{spec.name}'")
