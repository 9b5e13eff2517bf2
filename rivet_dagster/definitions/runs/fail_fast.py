"""``fail_fast``: after a failure no further group starts, whatever executor the run has."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly

_NOT_STARTED = "rivet/not_started"
"""Metadata of the Failure of a step that did not start, since another one had failed."""


def refuse_after_failure(context: dg.OpExecutionContext, assembly: CompiledAssembly) -> None:
    """Raise a Failure if a step of the run has failed, unless ``fail_fast`` is false.

    Dagster's executors go on with the steps that do not depend on a failed one. A step cannot tell them that it was
    skipped; as a failed one it is run again by a re-execution from failure. A step that is tried again had started.
    """
    if not assembly.fail_fast or context.retry_number > 0:
        return
    entries = context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
    failed = sorted({str(event.step_key) for event in events if not was_not_started(event)})
    if failed:
        message = f"not started, since {', '.join(failed)} failed before it and `fail_fast` is true"
        raise dg.Failure(message, metadata={_NOT_STARTED: True}, allow_retries=False)


def was_not_started(failure: dg.DagsterEvent) -> bool:
    """Return whether a step failed because ``refuse_after_failure`` refused to start it."""
    data = failure.step_failure_data.user_failure_data
    return data is not None and _NOT_STARTED in data.metadata
