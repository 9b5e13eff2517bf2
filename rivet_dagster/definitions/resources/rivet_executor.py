"""The executor that the engines of a profile require."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG
from rivet_dagster.definitions.resources.steps_in_threads import Rules, run_steps
from rivet_dagster.engines.registry import concurrency_limit, declared_class

_MAX_PROCESSES = "DAGSTER_MULTIPROCESS_EXECUTOR_MAX_CONCURRENT"
"""Dagster's own variable for the number of processes of a run."""


def rivet_executor(project: RivetProject) -> dg.ExecutorDefinition:
    """Return the executor in one process for one engine on this machine, else the one in processes.

    Both run as many groups of an engine at once as its ``concurrency_limit`` allows.
    """
    engines = project.assembly.engines
    if len(engines) == 1 and declared_class(engines[0]).on_this_machine(engines[0]):
        return one_process_executor(project)
    return _multiprocess(_limits(project))


def one_process_executor(project: RivetProject) -> dg.ExecutorDefinition:
    """Return the executor that runs groups in threads of one process, whatever the engines are."""
    return _threads(_limits(project), project.assembly.fail_fast)


class ThreadsExecutor(dg.Executor):
    """Runs the groups of each engine in threads of this process, as many at once as the engine's limit allows.

    Other steps run one after the other in the main thread, as in Dagster's in-process executor; so do groups of which
    only one may run at once.
    """

    def __init__(self, in_process: dg.Executor, rules: Rules) -> None:
        self._in_process = in_process
        self._rules = rules

    @property
    def retries(self) -> Any:
        """Whether steps are retried: as in Dagster's in-process executor, with the same configuration."""
        return self._in_process.retries

    @property
    def step_dependency_config(self) -> Any:
        """When a step may start: as in Dagster's in-process executor, with the same configuration."""
        return self._in_process.step_dependency_config

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        """Run the steps of a plan and yield their events."""
        return run_steps(plan_context, execution_plan, self._rules)


def _limits(project: RivetProject) -> tuple[tuple[str, int], ...]:
    return tuple((spec.name, concurrency_limit(spec)) for spec in project.assembly.engines)


def _tag_limits(limits: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
    return [{"key": ENGINE_TAG, "value": engine, "limit": limit} for engine, limit in limits]


# Definitions can only be merged if they have one executor: parts of a project share one object.
@cache
def _threads(limits: tuple[tuple[str, int], ...], fail_fast: bool) -> dg.ExecutorDefinition:
    at_once = sum(limit for _, limit in limits)
    rules = Rules(ENGINE_TAG if at_once > 1 else None, _tag_limits(limits), fail_fast)

    def make(context: dg.InitExecutorContext) -> ThreadsExecutor:
        in_process = dg.in_process_executor.executor_creation_fn
        assert in_process is not None
        return ThreadsExecutor(in_process(context), rules)

    schema: Any = dg.in_process_executor.config_schema
    return dg.ExecutorDefinition("threads", schema, executor_creation_fn=make, description="Groups in threads")


@cache
def _multiprocess(limits: tuple[tuple[str, int], ...]) -> dg.ExecutorDefinition:
    config: dict[str, Any] = {"tag_concurrency_limits": _tag_limits(limits)}
    if _MAX_PROCESSES not in os.environ:
        # Dagster's default is the number of processors; but steps on a cluster mostly wait for it.
        config["max_concurrent"] = max(os.cpu_count() or 1, sum(limit for _, limit in limits))
    return dg.multiprocess_executor.configured(config)
