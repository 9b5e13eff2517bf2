"""A RivetError as Dagster's Failure: its text first, its parts as metadata, no stack above them.

Dagster stores the text of an exception and of its causes in the event log: they hold no secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.row_values import error_without_values, text_without_values
from rivet_dagster.execution.time_limit import out_of_time_as_error
from rivet_dagster.model.step_options import StepOptions
from rivet_dagster.redaction import without_secrets

DIAGNOSTICS = "rivet/diagnostics"


@contextmanager
def step_failures(
    context: dg.AssetExecutionContext, options: StepOptions, shows_row_values: bool = True
) -> Iterator[None]:
    """Turn a RivetError of a step into a Failure, or into a retry where it is transient, as often as ``options`` say.

    Not by a RetryPolicy: Dagster lets that retry what a user has canceled, too. Unless it ``shows_row_values``, what
    quotes a row, or may do so, is left out.
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
    """Redact secrets in what the block raises, and in its causes; also a decorator."""
    try:
        yield
    except Exception as error:
        shown = without_secrets(error)
        if shown is error:
            raise
        raise shown from shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def failure(error: RivetError) -> dg.Failure:
    """Return the Failure of a step for ``error``; Dagster does not retry it."""
    records = [diagnostic.to_dict() for diagnostic in error.diagnostics]
    return dg.Failure(str(error), metadata={DIAGNOSTICS: dg.MetadataValue.json(records)}, allow_retries=False)
