"""A RivetError as Dagster's Failure, with its text as description and its diagnostics as metadata.

Dagster stores the text of an exception and of its causes in the event log, so secrets are redacted in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rivet_dagster.definitions.metadata.error_metadata import failure_metadata
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.row_values import error_without_values, text_without_values
from rivet_dagster.execution.time_limit import out_of_time_as_error
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
