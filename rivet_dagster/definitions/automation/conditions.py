"""Automation conditions: Dagster's own, which also wait for blocking checks and remember events while they wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.automation import CONDITIONS, EAGER, ON_CODE_CHANGE, ON_CRON

Condition = dg.AutomationCondition[Any]
_is = dg.AutomationCondition

_MADE = dg.AssetSelection.all()
"""All materializable assets: without sources, which exist whether they have been observed or not."""

_SOURCES_UPDATED = "rivet_sources_updated"


def automation_condition(
    condition: str,
    *,
    cron_schedule: str | None = None,
    timezone: str | None = None,
    published: Sequence[dg.AssetCheckKey] = (),
) -> Condition:
    """Return a condition by its name in ``automation`` of rivet.yaml, for a translator to set it on a spec.

    ``eager``: the asset is missing, or one of its dependencies has been updated. ``on_cron``: the ``cron_schedule`` has
    ticked (in ``timezone``, default UTC), and its dependencies in this project have been updated since.
    ``on_missing``: the asset is missing. ``on_code_change``: its code version has changed, or one of its dependencies
    is requested in the same tick.

    Each condition waits until the blocking checks of all dependencies have passed, and all but on_cron until no
    dependency is missing or in progress. ``published`` are the checks that the rows of a run are published, which are
    waited for like blocking ones. A source is never missing, and on_cron does not wait for sources. Of time
    partitions, only the latest is requested. Raises RVT-104.

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
    ready = wanted & _all_deps_published(published) if published else wanted
    return (_is.in_latest_time_window() & ready & _is.all_deps_blocking_checks_passed()).with_label(
        f"rivet_{condition}"
    )


def for_sources(condition: Condition, sources: Iterable[dg.AssetKey]) -> Condition:
    """Return ``condition`` limited to these ``sources`` of a joint, so that other assets do not add to its cost."""
    updated = _is.any_deps_updated().allow(dg.AssetSelection.assets(*sources))
    return condition.replace(_SOURCES_UPDATED, _not_answered_by_runs(updated))


def _all_deps_published(checks: Sequence[dg.AssetCheckKey]) -> Condition:
    """Return the condition that the rows of all dependencies are published, or that the same run makes them."""
    published = _is.check_passed() | _is.will_be_requested()
    of_asset = _is.all_checks_match(published).allow(dg.AssetSelection.checks(*checks))
    return _is.all_deps_match(of_asset.with_label("rivet_published")).with_label("rivet_all_deps_published")


def gate_condition() -> Condition:
    """Return the condition of a gated source's checks: never evaluated, or the source has a new data version."""
    wanted = _newly_missing() | _not_answered_by_runs(_is.any_deps_updated())
    return (wanted & ~_is.in_progress()).with_label("rivet_gate")


def published_condition(asset: dg.AssetKey) -> Condition:
    """Return the condition of the check that the rows of an asset are published: the asset itself is requested."""
    requested = _is.any_deps_match(_is.will_be_requested()).allow(dg.AssetSelection.assets(asset))
    return requested.with_label("rivet_published_with")


def _eager() -> Condition:
    updated = _is.any_deps_updated().allow(_MADE)
    sources = _not_answered_by_runs(_is.any_deps_updated().ignore(_MADE))
    return _newly_missing() | sources | updated.since(_is.newly_updated() | _requested_before(updated))


def _newly_missing() -> Condition:
    event = _is.newly_missing()
    return _is.missing() & event.since(_requested_before(event))


def _not_answered_by_runs(event: Condition) -> Condition:
    # A materialization of the target does not reset a new version, since its run may have begun before that.
    return event.since(_requested_before(event)).with_label(_SOURCES_UPDATED)


def _on_code_change() -> Condition:
    event = _is.code_version_changed() | _is.any_deps_match(_is.will_be_requested()).allow(_MADE)
    return event.since(_requested_before(event))


def _on_cron(cron_schedule: str, timezone: str) -> Condition:
    # Dagster's parameter checks raise no public type of error.
    try:
        event = _is.cron_tick_passed(cron_schedule, timezone)
        updated = _is.all_deps_updated_since_cron(cron_schedule, timezone).allow(_MADE)
    except Exception as error:
        raise RivetError("RVT-104", f"Dagster refuses the cron schedule '{cron_schedule}': {error}") from error
    return event.since(_is.newly_updated() | _requested_before(event)) & updated


def _undisturbed() -> Condition:
    """Return the condition that no dependency is missing or in progress, nor the target itself in progress."""
    return ~_is.any_deps_missing().allow(_MADE) & ~_is.any_deps_in_progress() & ~_is.in_progress()


def _requested_before(event: Condition) -> Condition:
    """Return the condition that the target was requested in the previous tick, and ``event`` has not happened since."""
    return _is.newly_requested() & ~event
