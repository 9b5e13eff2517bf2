"""The run of a plan's steps in threads of this process.

Dagster has a public base class of executors, but no public way to run a step in the process of its executor, nor a job
that is not importable with the executor of its own. What is used for that is imported here and nowhere else; it is what
Dagster's in-process and multiprocess executors are made of, and the tests run it on the oldest supported Dagster, too.
"""

from __future__ import annotations

import contextvars
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.events import EngineEventData
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.compute_logs import create_compute_log_file_key
from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext, StepExecutionContext
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.execute_in_process import core_execute_in_process
from dagster._core.execution.plan.active import ActiveExecution
from dagster._core.execution.plan.execute_plan import _trigger_hook, dagster_event_sequence_for_step
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.plan.step import ExecutionStep
from dagster._utils.error import serializable_error_info_from_exc_info

from rivet_dagster.definitions.runs.failure import interrupt

POLL_SECONDS = 0.1
GRACE_SECONDS = 15.0
"""How long an interrupted run waits for its threads: longer than an engine needs to stop a query."""

_INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


@dataclass(frozen=True)
class Rules:
    """The rules of a run: in threads are steps with the tag ``in_threads``, within the limits of ``tag_limits``.

    Without that tag all steps run in the main thread. With ``fail_fast`` no step starts after another one has failed.
    """

    in_threads: str | None
    tag_limits: list[dict[str, Any]]
    fail_fast: bool


def execute_here(
    job: dg.JobDefinition, instance: dg.DagsterInstance, run_id: str, tags: Mapping[str, str], config: Mapping[str, Any]
) -> bool:
    """Run a job in this process with its own executor, and return whether it succeeded; no step's error is raised.

    ``job.execute_in_process`` has an executor of its own, and ``dg.execute_job`` makes the job anew, from a function
    that it imports.
    """
    result = core_execute_in_process(
        run_config=config,
        job=InMemoryJob(job),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
        run_tags=tags,
        run_id=run_id,
    )
    return result.success


def run_steps(context: PlanOrchestrationContext, plan: ExecutionPlan, rules: Rules) -> Iterator[dg.DagsterEvent]:
    """Run the steps of a plan and yield their events. Raises DagsterExecutionInterruptedError."""
    process = EngineEventData.in_process(os.getpid(), plan.step_keys_to_execute)
    yield dg.DagsterEvent.engine_event(context, f"Executing steps in threads (pid: {os.getpid()})", process)
    yield from ExecuteRunWithPlanIterable(
        execution_plan=plan,
        iterator=lambda job_context, execution_plan: _run_plan(job_context, execution_plan, rules),
        execution_context_manager=PlanExecutionContextManager(
            job=context.job,
            retry_mode=context.retry_mode,
            execution_plan=plan,
            run_config=context.run_config,
            dagster_run=context.dagster_run,
            instance=context.instance,
            raise_on_error=context.raise_on_error,
            output_capture=context.output_capture,
            step_dependency_config=context.step_dependency_config,
        ),
    )
    yield dg.DagsterEvent.engine_event(context, f"Finished steps in threads (pid: {os.getpid()})", process)


def _run_plan(context: PlanExecutionContext, plan: ExecutionPlan, rules: Rules) -> Iterator[dg.DagsterEvent]:
    with ExitStack() as stack:
        pools = stack.enter_context(InstanceConcurrencyContext(context.instance, context.dagster_run))
        active = stack.enter_context(
            plan.start(
                retry_mode=context.retry_mode,
                tag_concurrency_limits=rules.tag_limits,
                instance_concurrency_context=pools,
                step_dependency_config=context.step_dependency_config,
            )
        )
        logs = stack.enter_context(ExitStack())
        yield from _captured_output(context, plan, logs)
        yield from _Steps(context, active, pools, rules).run()
        try:
            logs.close()
        except Exception:
            yield _error_event(context, "Exception while cleaning up compute log capture")


def _captured_output(context: PlanExecutionContext, plan: ExecutionPlan, logs: ExitStack) -> Iterator[dg.DagsterEvent]:
    """Capture the output of the process, which all steps share, until ``logs`` is closed."""
    manager = context.instance.compute_log_manager
    key = create_compute_log_file_key()  # type: ignore[no-untyped-call]
    log_key = manager.build_log_key_for_run(context.run_id, key)
    steps = [step.key for step in plan.get_steps_to_execute_in_topo_order()]
    try:
        captured = logs.enter_context(manager.capture_logs(log_key))
        yield dg.DagsterEvent.capture_logs(context, steps, log_key, captured)
    except Exception:
        yield _error_event(context, "Exception while setting up compute log capture")


def _error_event(context: PlanExecutionContext, message: str) -> dg.DagsterEvent:
    error = serializable_error_info_from_exc_info(sys.exc_info())
    return dg.DagsterEvent.engine_event(context, message, EngineEventData(error=error))


class _Steps:
    """The steps of one run: those that wait, and those that run in threads.

    Threads only run a step and send its events; all else is done in the thread that called ``run``.
    """

    def __init__(
        self, context: PlanExecutionContext, active: ActiveExecution, pools: InstanceConcurrencyContext, rules: Rules
    ) -> None:
        self._context = context
        self._active = active
        self._pools = pools
        self._rules = rules
        self._running: dict[str, StepExecutionContext] = {}
        self._waiting: deque[ExecutionStep] = deque()
        self._sent: SimpleQueue[tuple[str, dg.DagsterEvent | BaseException | None]] = SimpleQueue()
        self._events: dict[str, list[dg.DagsterEvent]] = {}
        self._failed: list[str] = []
        self._errors: list[BaseException] = []

    def run(self) -> Iterator[dg.DagsterEvent]:
        """Run all steps and yield their events.

        Raises DagsterExecutionInterruptedError, and with ``raise_on_error`` the first error of a step.
        """
        try:
            while not self._active.is_complete:
                if self._active.check_for_interrupts():
                    raise dg.DagsterExecutionInterruptedError
                self._start_ready()
                yield from self._active.concurrency_event_iterator(self._context)
                if self._waiting:
                    yield from self._run_here(self._waiting.popleft())
                    yield from self._receive(0)
                else:
                    yield from self._receive(POLL_SECONDS)
                yield from self._active.plan_events_iterator(self._context)
        except _INTERRUPTS:
            yield from self._stop()
            raise
        if self._errors:
            raise self._errors[0]

    def _start_ready(self) -> None:
        for step in self._active.get_steps_to_execute():
            if self._stays_out(step):
                self._leave_out(step)
            elif self._rules.in_threads in step.tags:
                self._start(step)
            else:
                self._waiting.append(step)

    def _stays_out(self, step: ExecutionStep) -> bool:
        """Return whether a step does not start after a failure; one that is tried again had started before."""
        is_first_try = self._active.retry_state.get_attempt_count(step.key) == 0
        return bool(self._errors or (self._rules.fail_fast and self._failed and is_first_try))

    def _leave_out(self, step: ExecutionStep) -> None:
        self._context.for_step(step).log.warning(
            f"Step {step.key} is not started, since {', '.join(self._failed)} failed and `fail_fast` is true."
        )
        self._active.mark_abandoned(step.key)
        self._pools.free_step(step.key)

    def _start(self, step: ExecutionStep) -> None:
        context = self._context_of(step)
        self._running[step.key] = context
        # A daemon thread: a step that does not stop must not keep the process from ending.
        run = contextvars.copy_context().run
        Thread(target=run, args=(self._send, context), name=f"rivet-step-{step.key}", daemon=True).start()

    def _context_of(self, step: ExecutionStep) -> StepExecutionContext:
        state = self._active.get_known_state()
        self._events[step.key] = []
        # A copy: the set grows while the step runs.
        return self._context.for_step(step, state._replace(ready_outputs=set(state.ready_outputs)))

    def _send(self, context: StepExecutionContext) -> None:
        """Run a step, in a thread of its own."""
        key, error = context.step.key, None
        try:
            for event in dagster_event_sequence_for_step(context):
                self._sent.put((key, event))
        except BaseException as raised:
            error = raised
        self._sent.put((key, error))

    def _run_here(self, step: ExecutionStep) -> Iterator[dg.DagsterEvent]:
        """Run a step in this thread, in which its code gets signals and can use the event loop of the run."""
        if self._stays_out(step):
            self._leave_out(step)
            return
        context = self._running[step.key] = self._context_of(step)
        error = None
        try:
            for event in dagster_event_sequence_for_step(context):
                yield from self._take(step.key, event)
                yield from self._receive(0)
        except _INTERRUPTS:
            yield from self._end(step.key, None)
            raise
        except Exception as raised:
            error = raised
        yield from self._end(step.key, error)

    def _receive(self, seconds: float) -> Iterator[dg.DagsterEvent]:
        """Yield what threads have sent; wait for the first event at most for ``seconds``."""
        while True:
            try:
                key, sent = self._sent.get(timeout=seconds) if seconds else self._sent.get_nowait()
            except Empty:
                return
            seconds = 0
            yield from self._take(key, sent) if isinstance(sent, dg.DagsterEvent) else self._end(key, sent)

    def _take(self, key: str, event: dg.DagsterEvent) -> Iterator[dg.DagsterEvent]:
        self._events[key].append(event)
        yield event
        self._active.handle_event(event)
        if event.is_step_failure:
            self._failed.append(key)

    def _end(self, key: str, error: BaseException | None) -> Iterator[dg.DagsterEvent]:
        context, events = self._running.pop(key), self._events.pop(key)
        if error is not None and not isinstance(error, _INTERRUPTS):
            self._errors.append(error)
        self._active.verify_complete(self._context, key)
        yield from _trigger_hook(context, events)

    def _stop(self) -> Iterator[dg.DagsterEvent]:
        """Have the threads stop what they run, and wait for them; a second interrupt ends the waiting."""
        self._active.mark_interrupted()
        interrupt(self._context.run_id)
        if not self._running:
            return
        yield dg.DagsterEvent.engine_event(
            self._context, "Interrupted; stopping the steps that run", EngineEventData.interrupted([*self._running])
        )
        deadline = time.monotonic() + GRACE_SECONDS
        while self._running and time.monotonic() < deadline and not self._active.check_for_interrupts():
            yield from self._receive(POLL_SECONDS)
        if self._running:
            self._context.log.error(f"These steps did not stop, and end with the process: {', '.join(self._running)}")
