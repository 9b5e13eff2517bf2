"""Runs that continue another one: they execute again what that has not done."""

from __future__ import annotations

import dagster as dg

_PARTIAL = "dagster/is_asset_resume_retry"
_AUTOMATIC = "dagster/retry_number"


def is_automatic_retry(run: dg.DagsterRun) -> bool:
    """Return whether Dagster itself has begun the run, since another one had failed."""
    return _AUTOMATIC in run.tags


def continues_parent(run: dg.DagsterRun) -> bool:
    """Return whether a run with a parent executes again only a part of that, or is its automatic retry."""
    return is_automatic_retry(run) or run.step_keys_to_execute is not None or _PARTIAL in run.tags


def continued_run(run: dg.DagsterRun, instance: dg.DagsterInstance) -> dg.DagsterRun | None:
    """Return the run that ``run`` continues; None if it continues none, or if that is not known any more."""
    if run.parent_run_id is None or not continues_parent(run):
        return None
    return instance.get_run_by_id(run.parent_run_id)
