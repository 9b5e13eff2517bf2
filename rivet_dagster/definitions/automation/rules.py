"""What ``automation`` and ``freshness`` of rivet.yaml say of joints, put on their specs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg

from rivet_dagster.definitions.automation.conditions import Condition, automation_condition, for_sources, gate_condition
from rivet_dagster.definitions.automation.problems import Problems
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.automation import FreshnessRule
from rivet_dagster.model.joint import SOURCE

if TYPE_CHECKING:
    from rivet_dagster.definitions.project import RivetProject

Specs = Mapping[str, dg.AssetSpec]


def with_rules(project: RivetProject, specs: Specs) -> tuple[dict[str, dg.AssetSpec], Sequence[Diagnostic]]:
    """The specs with the conditions and policies of the rules, and what is wrong with those.

    What a spec has already stays. Of several rules for one joint the last counts. A condition is also that of the
    joints before it in its group that have none, since it would never see a new version of what only they read.
    """
    problems = Problems()
    conditions = _spread(project, {**_conditions(project, problems), **_own_conditions(specs)})
    policies = _policies(project, problems)
    found = dict(specs)
    known: dict[tuple[int, tuple[dg.AssetKey, ...]], Condition] = {}
    for name in conditions.keys() | policies.keys():
        spec = specs[name]
        condition = conditions.get(name)
        if condition is not None:
            # Most joints share a condition and read no source: one object for all of them, made once.
            sources = _sources(project, spec)
            one = (id(condition), sources)
            condition = known.get(one) or known.setdefault(one, for_sources(condition, sources))
        found[name] = spec.replace_attributes(
            automation_condition=condition, freshness_policy=spec.freshness_policy or policies.get(name)
        )
    return found, problems.found


def watched_sources(project: RivetProject, specs: Specs) -> frozenset[str]:
    """The gated sources that a joint with a condition reads."""
    readers = (name for name, spec in specs.items() if spec.automation_condition is not None)
    read = (project.assembly.joint(one) for name in readers for one in project.assembly.joint(name).upstream)
    return frozenset(joint.name for joint in read if joint.type == SOURCE and joint.checks)


def with_gate_condition(spec: dg.AssetCheckSpec) -> dg.AssetCheckSpec:
    """A check of a source that a joint with a condition reads: it is evaluated with each new version."""
    if spec.automation_condition is not None:
        return spec
    return dg.AssetCheckSpec(
        name=spec.name,
        asset=spec.asset_key,
        description=spec.description,
        additional_deps=spec.additional_deps,
        blocking=spec.blocking,
        metadata=spec.metadata,
        automation_condition=gate_condition(),
        partitions_def=spec.partitions_def,
    )


def _sources(project: RivetProject, spec: dg.AssetSpec) -> tuple[dg.AssetKey, ...]:
    read = {dep.asset_key: project.joints.get(dep.asset_key) for dep in spec.deps}
    return tuple(key for key, name in read.items() if name and project.assembly.joint(name).type == SOURCE)


def _own_conditions(specs: Specs) -> dict[str, Condition]:
    given = {name: spec.automation_condition for name, spec in specs.items()}
    return {name: condition for name, condition in given.items() if condition is not None}


def _conditions(project: RivetProject, problems: Problems) -> dict[str, Condition]:
    found: dict[str, Condition] = {}
    for number, rule in enumerate(project.assembly.dagster.automation, start=1):
        with problems.of(f"automation rule {number}", rule.origin):
            joints = project.select_made(rule.target)
            condition = automation_condition(rule.condition, cron_schedule=rule.cron_schedule, timezone=rule.timezone)
            found |= dict.fromkeys(joints, condition)
    return found


def _spread(project: RivetProject, given: Mapping[str, Condition]) -> dict[str, Condition]:
    found = dict(given)
    for group in project.assembly.fused_groups if given else ():
        for name in reversed(group.joints):
            if name in found:
                before = (project.assembly.joint(one) for one in project.assembly.joint(name).upstream)
                inner = (one.name for one in before if one.group == group.name and one.type != SOURCE)
                found = dict.fromkeys(inner, found[name]) | found
    return found


def _policies(project: RivetProject, problems: Problems) -> dict[str, dg.FreshnessPolicy]:
    found: dict[str, dg.FreshnessPolicy] = {}
    for number, rule in enumerate(project.assembly.dagster.freshness, start=1):
        with problems.of(f"freshness rule {number}", rule.origin):
            joints: Iterable[str] = project.select(rule.target)
            if not joints:
                raise RivetError("RVT-115", f"{rule.target!r} selects nothing of this project")
            found |= dict.fromkeys(joints, _policy(rule))
    return found


def _policy(rule: FreshnessRule) -> dg.FreshnessPolicy:
    window, deadline = rule.time_window, rule.cron
    if window is not None:
        warn = timedelta(seconds=window.warn_window) if window.warn_window is not None else None
        return dg.FreshnessPolicy.time_window(timedelta(seconds=window.fail_window), warn)
    assert deadline is not None
    # Dagster's checks of its parameters raise no error of a type that it makes public.
    try:
        return dg.FreshnessPolicy.cron(
            deadline.deadline_cron, timedelta(seconds=deadline.lower_bound_delta), deadline.timezone
        )
    except Exception as error:
        raise RivetError("RVT-104", f"Dagster refuses `cron`: {error}") from error
