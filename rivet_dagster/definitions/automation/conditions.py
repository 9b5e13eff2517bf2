"""Automation conditions: Dagster's own, but they wait for blocking checks, and remember what happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.automation import CONDITIONS, EAGER, ON_CODE_CHANGE, ON_CRON

Condition = dg.AutomationCondition[Any]
_is = dg.AutomationCondition

_MADE = dg.AssetSelection.all()
"""All assets but the sources, which exist whether they have been observed or not."""

_SOURCES_UPDATED = "rivet_sources_updated"


def automation_condition(condition: str, *, cron_schedule: str | None = None, timezone: str | None = None) -> Condition:
    """Return the condition that ``automation`` in rivet.yaml names so, for a translator to set on a spec.

    ``eager``: it is missing, or something that it reads has changed. ``on_cron``: the ``cron_schedule`` ticked (in
    ``timezone``, default UTC), and what it reads of this project has been made since. ``on_missing``: it is missing.
    ``on_code_change``: its own code has changed, or something that it reads is made in the same tick.

    Each waits until the blocking checks of all that it reads have passed, and, but for on_cron, until nothing of that
    is being made or missing. A source is never missing, and on_cron waits for none. Only the latest of partitions of
    time is made. Raises RVT-104.

    >>> automation_condition("eager").get_label()
    'rivet_eager'
    """
    if condition not in CONDITIONS:
        raise RivetError("RVT-104", f"there is no condition '{condition}'{nearest(condition, CONDITIONS)}")
    if (cron_schedule is None) == (condition == ON_CRON) or (timezone is not None and condition != ON_CRON):
        raise RivetError("RVT-104", "`cron_schedule` belongs to the condition on_cron, and `timezone` with it")
    if condition == ON_CRON:
        wanted = _on_cron(str(cron_schedule), timezone or "UTC")
    else:
        wanted = {EAGER: _eager, ON_CODE_CHANGE: _on_code_change}.get(condition, _newly_missing)() & _undisturbed()
    return (_is.in_latest_time_window() & wanted & _is.all_deps_blocking_checks_passed()).with_label(
        f"rivet_{condition}"
    )


def for_sources(condition: Condition, sources: Iterable[dg.AssetKey]) -> Condition:
    """Return the condition for a joint that reads these ``sources``: it costs no more with each other asset."""
    updated = _is.any_deps_updated().allow(dg.AssetSelection.assets(*sources))
    return condition.replace(_SOURCES_UPDATED, _not_answered_by_runs(updated))


def gate_condition() -> Condition:
    """Return the condition of a gated source's checks: never evaluated, or the source has another version."""
    wanted = _newly_missing() | _not_answered_by_runs(_is.any_deps_updated())
    return (wanted & ~_is.in_progress()).with_label("rivet_gate")


def _eager() -> Condition:
    updated = _is.any_deps_updated().allow(_MADE)
    sources = _not_answered_by_runs(_is.any_deps_updated().ignore(_MADE))
    return _newly_missing() | sources | updated.since(_is.newly_updated() | _requested_before(updated))


def _newly_missing() -> Condition:
    event = _is.newly_missing()
    return _is.missing() & event.since(_requested_before(event))


def _not_answered_by_runs(event: Condition) -> Condition:
    # That the target was made meanwhile is no answer to a new version: the run may have begun before.
    return event.since(_requested_before(event)).with_label(_SOURCES_UPDATED)


def _on_code_change() -> Condition:
    event = _is.code_version_changed() | _is.any_deps_match(_is.will_be_requested()).allow(_MADE)
    return event.since(_requested_before(event))


def _on_cron(cron_schedule: str, timezone: str) -> Condition:
    # Dagster's checks of its parameters raise no error of a type that it makes public.
    try:
        event = _is.cron_tick_passed(cron_schedule, timezone)
        updated = _is.all_deps_updated_since_cron(cron_schedule, timezone).allow(_MADE)
    except Exception as error:
        raise RivetError("RVT-104", f"Dagster refuses the cron schedule '{cron_schedule}': {error}") from error
    return event.since(_is.newly_updated() | _requested_before(event)) & updated


def _undisturbed() -> Condition:
    """Return the condition that nothing the target reads is missing or in progress, nor the target itself."""
    return ~_is.any_deps_missing().allow(_MADE) & ~_is.any_deps_in_progress() & ~_is.in_progress()


def _requested_before(event: Condition) -> Condition:
    """Return the condition that the target was requested in the tick before, and ``event`` has not happened since."""
    return _is.newly_requested() & ~event
