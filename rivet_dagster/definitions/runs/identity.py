"""The identity under which a step publishes: its run, or, for a retry, the run that first tried the step."""

from __future__ import annotations

import dagster as dg

_PARTIAL = "dagster/is_asset_resume_retry"
_AUTOMATIC = "dagster/retry_number"


def run_identity(run: dg.DagsterRun, instance: dg.DagsterInstance, step: str) -> str:
    """Return the id of the run that first tried this step of ``run``.

    A retry of a step that did not succeed has the identity of the first attempt, so that what that had already
    published is not published twice. A re-execution of a step that succeeded, or of a whole run, is a new run.
    """
    while run.parent_run_id is not None and _is_retry(run, run.parent_run_id, step, instance):
        parent = instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            break
        run = parent
    return run.run_id


def continues_parent(run: dg.DagsterRun) -> bool:
    """Return whether a run with a parent executes again only a part of that, or is its automatic retry."""
    return _AUTOMATIC in run.tags or run.step_keys_to_execute is not None or _PARTIAL in run.tags


def _is_retry(run: dg.DagsterRun, parent_id: str, step: str, instance: dg.DagsterInstance) -> bool:
    if not continues_parent(run):
        return False
    if _AUTOMATIC in run.tags:
        return True
    succeeded = instance.all_logs(parent_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    return step not in {entry.dagster_event.step_key for entry in succeeded if entry.dagster_event}
