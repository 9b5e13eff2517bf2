"""The freshness policies that rivet.yaml declares."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.automation.problems import Problems
from rivet_dagster.definitions.specs.selection import Selector
from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import FreshnessRule


def freshness_policies(
    assembly: CompiledAssembly, selector: Selector, problems: Problems
) -> Mapping[str, dg.FreshnessPolicy]:
    """Return the policies by joint; if several rules select a joint, the last counts. Errors go to ``problems``."""
    policies: dict[str, dg.FreshnessPolicy] = {}
    for number, rule in enumerate(assembly.dagster.freshness, start=1):
        with problems.of(f"freshness rule {number}", rule.origin):
            joints = selector.select(rule.target)
            if not joints:
                raise RivetError("RVT-115", f"{rule.target!r} selects nothing of this project")
            policies |= dict.fromkeys(joints, _policy(rule))
    return policies


def _policy(rule: FreshnessRule) -> dg.FreshnessPolicy:
    window, deadline = rule.time_window, rule.cron
    if window is not None:
        warn = timedelta(seconds=window.warn_window) if window.warn_window is not None else None
        return dg.FreshnessPolicy.time_window(timedelta(seconds=window.fail_window), warn)
    assert deadline is not None
    # Dagster's parameter checks raise no public type of error.
    try:
        return dg.FreshnessPolicy.cron(
            deadline.deadline_cron, timedelta(seconds=deadline.lower_bound_delta), deadline.timezone
        )
    except Exception as error:
        raise RivetError("RVT-104", f"Dagster refuses `cron`: {error}") from error
