"""Sending the request of a commit, and what its failure says: that it was refused, or that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

from rivet_dagster.errors import NotFound, NotWritable, RivetError

PATIENCE = 10.0
"""Seconds that an interrupt, as of a cancelled run, waits for a request that was sent."""

T = TypeVar("T")


class CommitRefusedError(OSError):
    """A commit was not carried out, and will not be."""


def send(request: Callable[[], T]) -> T:
    """Return the answer to a request, which is sent in another thread, so that an interrupt finds it answered or not.

    An interrupt waits for the answer for PATIENCE seconds at most, and is raised after that. Raises what ``request``
    raises.

    >>> send(lambda: "done")
    'done'
    """
    answers: list[T] = []
    errors: list[BaseException] = []
    ended = Event()

    def work() -> None:
        try:
            answers.append(request())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A daemon thread: a server that does not answer must not keep the process from ending.
    Thread(target=work, name="rivet-commit", daemon=True).start()
    try:
        ended.wait()
    except BaseException:  # KeyboardInterrupt, or what Dagster raises for a cancel
        ended.wait(PATIENCE)
        raise
    if errors:
        raise errors[0]
    return answers[0]


def is_refusal(error: Exception) -> bool:
    """Return whether an error of a commit says that it is not carried out, now or later."""
    from pydantic import ValidationError
    from pyiceberg import exceptions as iceberg
    from requests import ConnectTimeout, RequestException
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, RivetError):  # of an environment that was dropped, whose table is removed again
        return not isinstance(error, NotFound | NotWritable)
    unknown = (iceberg.CommitStateUnknownException, iceberg.ServerError, iceberg.ServiceUnavailableError)
    if isinstance(error, (*unknown, ValidationError)):  # the latter: the answer was cut off
        return False
    if isinstance(error, RequestException):
        reason = getattr(error.args[0], "reason", None) if error.args else None
        return isinstance(error, ConnectTimeout) or isinstance(reason, NewConnectionError)
    if type(error).__module__ == iceberg.__name__:
        return True
    of_this_process = (CommitRefusedError, ValueError, NotImplementedError, PermissionError, FileNotFoundError)
    return isinstance(error, of_this_process)
