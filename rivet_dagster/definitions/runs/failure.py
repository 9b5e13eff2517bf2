"""A RivetError as Dagster's Failure, with its text as description and its diagnostics as metadata.

Dagster stores the text of an exception and of its causes in the event log, so secrets are redacted in all of them.

Interrupts of runs with steps in threads: signals, Dagster's way to end a run, arrive in the main thread alone.

``fail_fast``: after a failure no further group starts, whatever executor the run has.

The time limit of one attempt of a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.definitions.specs.samples_and_errors import failure_metadata
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.row_error import error_without_values, text_without_values
from rivet_dagster.model.step_options import StepOptions
from rivet_dagster.secrets.redaction import without_secrets


@contextmanager
def step_failures(
    context: dg.AssetExecutionContext, options: StepOptions, shows_row_values: bool = True
) -> Iterator[None]:
    """Turn a RivetError of a step into a Failure, or, if it is transient, into a retry, as often as ``options`` allow.

    A RetryPolicy is not used, since Dagster would also retry steps that a user has canceled. Without
    ``shows_row_values``, texts that may quote values of rows are left out.
    """
    try:
        with secrets_redacted(), out_of_time_as_error():
            yield
    except RivetError as error:
        shown = error if shows_row_values else error_without_values(error)
        if error.is_transient and context.retry_number < options.retries:
            raise dg.RetryRequested(options.retries, options.retry_delay) from failure(shown)
        raise failure(shown) from shown
    except Exception as error:
        if shows_row_values:
            raise
        message = text_without_values("", type(error).__name__)
        raise failure(RivetError("RVT-599", message)) from None


@contextmanager
def rivet_failures() -> Iterator[None]:
    """Turn a RivetError of the block into a Failure with its diagnostics as metadata."""
    try:
        with secrets_redacted(), out_of_time_as_error():
            yield
    except RivetError as error:
        raise failure(error) from error


@contextmanager
def secrets_redacted() -> Iterator[None]:
    """Redact secrets in the exception that the block raises, and in its causes; also usable as a decorator."""
    try:
        yield
    except Exception as error:
        shown = without_secrets(error)
        if shown is error:
            raise
        raise shown from shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def failure(error: RivetError) -> dg.Failure:
    """Return the Failure for ``error``, which Dagster does not retry."""
    return dg.Failure(str(error), metadata=failure_metadata(error.diagnostics), allow_retries=False)


_interrupted: set[str] = set()
"""The ids of runs that were interrupted in this process."""


def interrupt(run_id: str) -> None:
    """Have the steps of a run that are in threads of this process stop."""
    _interrupted.add(run_id)


def raise_if_interrupted(run_id: str) -> None:
    """Raise DagsterExecutionInterruptedError if the run was interrupted."""
    if run_id in _interrupted:
        raise dg.DagsterExecutionInterruptedError


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


class OutOfTime(BaseException):
    """Raised when the time limit of a step is exceeded.

    Like KeyboardInterrupt it is not an Exception, so that no handler takes it for a failed check or a wrong query.
    """

    def __init__(self, error: RivetError) -> None:
        super().__init__(str(error))
        self.error = error


class TimeLimit:
    """The ``timeout`` of the step whose exit is ``joint``, counted from now on."""

    def __init__(self, joint: CompiledJoint) -> None:
        self._joint = joint
        self._ends = None if joint.step.timeout is None else time.monotonic() + joint.step.timeout

    def check(self) -> None:
        """Raise OutOfTime if the time limit is exceeded."""
        if self._ends is not None and time.monotonic() > self._ends:
            message = f"it took longer than its `timeout`, {self._joint.step.timeout:g} s; nothing of it is published"
            joint = self._joint
            raise OutOfTime(RivetError("RVT-518", message, joint=joint.name, file=joint.file, line=joint.line))


@contextmanager
def out_of_time_as_error() -> Iterator[None]:
    """Turn an OutOfTime of the block into its error, RVT-518."""
    try:
        yield
    except OutOfTime as late:
        raise late.error from None
