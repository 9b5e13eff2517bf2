"""The identity under which a step publishes, and the names of steps."""

from __future__ import annotations

import re

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.runs.continued import continued_run, is_automatic_retry
from rivet_dagster.definitions.runs.full_refresh import is_full_refresh


def run_identity(run: dg.DagsterRun, instance: dg.DagsterInstance, step: str) -> str:
    """Return the id of the run that first tried this step of ``run``.

    A retry of a step that did not succeed has the identity of the first attempt, so that what that had already
    published is not published twice. A re-execution of a step that succeeded, or of a whole run, is a new run; so is
    one that is a full refresh where the first attempt was none, or the other way round.
    """
    while (parent := continued_run(run, instance)) is not None and _is_retry(run, parent, step, instance):
        run = parent
    return run.run_id


def _is_retry(run: dg.DagsterRun, parent: dg.DagsterRun, step: str, instance: dg.DagsterInstance) -> bool:
    if is_full_refresh(run, instance) != is_full_refresh(parent, instance):
        return False
    if is_automatic_retry(run):
        return True
    succeeded = instance.all_logs(parent.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    return step not in {entry.dagster_event.step_key for entry in succeeded if entry.dagster_event}


def step_name(assembly: CompiledAssembly, *parts: str) -> str:
    """Return the name of a step, with ``_`` for characters of the key prefix that Dagster does not allow in it.

    >>> from rivet_dagster.model.project import DagsterSettings
    >>> step_name(CompiledAssembly(profile="default", dagster=DagsterSettings(("shop-2", "eu"))), "observe", "raw")
    'shop_2__eu__observe__raw'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", "__".join([*assembly.dagster.key_prefix, *parts]))
