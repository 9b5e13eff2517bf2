"""Interrupts of runs with steps in threads: signals, Dagster's way to end a run, arrive in the main thread alone."""

from __future__ import annotations

import dagster as dg

_interrupted: set[str] = set()
"""The ids of runs that were interrupted in this process."""


def interrupt(run_id: str) -> None:
    """Have the steps of a run that are in threads of this process stop."""
    _interrupted.add(run_id)


def raise_if_interrupted(run_id: str) -> None:
    """Raise DagsterExecutionInterruptedError if the run was interrupted."""
    if run_id in _interrupted:
        raise dg.DagsterExecutionInterruptedError
