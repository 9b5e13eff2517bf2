"""The automation conditions and freshness policies that rivet.yaml declares, added to the specs of a project.

The conditions are Dagster's own, which also wait for blocking checks and remember events while they wait. The errors of
the ``dagster:`` block are collected, to be raised as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.specs.selection import (
    Selector,
    published_key,
    published_with_run,
    refuse_empty,
    without_sources,
)
from rivet_dagster.definitions.specs.translator import AssetSpecs
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model.automation import CONDITIONS, EAGER, ON_CODE_CHANGE, ON_CRON, FreshnessRule
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.text_lines import Origin

Condition = dg.AutomationCondition[Any]
_is = dg.AutomationCondition

_MADE = dg.AssetSelection.all()
"""All materializable assets: without sources, which exist whether they have been observed or not."""

_SOURCES_UPDATED = "rivet_sources_updated"
_DEPS_PUBLISHED = "rivet_all_deps_published"


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


def for_dependencies(
    condition: Condition, sources: Iterable[dg.AssetKey], published: Sequence[dg.AssetCheckKey]
) -> Condition:
    """Return ``condition`` limited to what a joint reads, so that other assets do not add to its size and its cost.

    ``sources`` are the project's sources among its dependencies, ``published`` the checks that the rows of others are
    published.
    """
    updated = _is.any_deps_updated().allow(dg.AssetSelection.assets(*sources))
    limited = condition.replace(_SOURCES_UPDATED, _not_answered_by_runs(updated))
    return limited.replace(_DEPS_PUBLISHED, _all_deps_published(published))


def _all_deps_published(checks: Sequence[dg.AssetCheckKey]) -> Condition:
    """Return the condition that the rows of all dependencies are published, or that the same run makes them."""
    published = _is.check_passed() | _is.will_be_requested()
    of_asset = _is.all_checks_match(published).allow(dg.AssetSelection.checks(*checks))
    return _is.all_deps_match(of_asset.with_label("rivet_published")).with_label(_DEPS_PUBLISHED)


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


def with_rules(
    assembly: CompiledAssembly, specs: AssetSpecs, selector: Selector
) -> tuple[AssetSpecs, Sequence[Diagnostic]]:
    """Return the specs with the conditions and policies of the rules, and the errors of the rules.

    Conditions and policies that a spec already has are not changed. If several rules select a joint, the last counts. A
    condition is also given to the joints before it in its group that have none, since it would otherwise not see new
    versions of what only they read. The checks of a gated source get a condition if a joint with a condition reads it.
    """
    problems = Problems()
    keys = (published_key(assembly, specs.keys, name) for name in published_with_run(assembly))
    published = {key.asset_key: key for key in keys}
    declared = _conditions(assembly, selector, problems, tuple(published.values()))
    conditions = _spread(assembly, {**declared, **_own_conditions(specs)})
    policies = freshness_policies(assembly, selector, problems)
    joints = dict(specs.joints)
    known: dict[tuple[int, tuple[dg.AssetKey, ...], tuple[dg.AssetCheckKey, ...]], Condition] = {}
    for name in conditions.keys() | policies.keys():
        spec = joints[name]
        condition = conditions.get(name)
        if condition is not None:
            # Most joints share a condition and read no source: one object serves them all.
            sources = _sources(assembly, specs, spec)
            read = tuple(published[dep.asset_key] for dep in spec.deps if dep.asset_key in published)
            same = (id(condition), sources, read)
            condition = known.get(same) or known.setdefault(same, for_dependencies(condition, sources, read))
        joints[name] = spec.replace_attributes(
            automation_condition=condition, freshness_policy=spec.freshness_policy or policies.get(name)
        )
    gated = _gated_sources(assembly, joints)
    checks = {key: _with_gate_condition(spec) if key[0] in gated else spec for key, spec in specs.checks.items()}
    return replace(specs, joints=joints, checks=checks), problems.diagnostics


def _conditions(
    assembly: CompiledAssembly, selector: Selector, problems: Problems, published: Sequence[dg.AssetCheckKey]
) -> dict[str, Condition]:
    """Return the conditions of the rules by joint; errors go to ``problems``.

    ``published`` are the checks that the rows of runs are published.
    """
    conditions: dict[str, Condition] = {}
    for number, rule in enumerate(assembly.dagster.automation, start=1):
        with problems.of(f"automation rule {number}", rule.origin):
            joints = without_sources(assembly, rule.target, selector.select(rule.target), selector)
            condition = automation_condition(
                rule.condition, cron_schedule=rule.cron_schedule, timezone=rule.timezone, published=published
            )
            conditions |= dict.fromkeys(joints, condition)
    return conditions


def _own_conditions(specs: AssetSpecs) -> dict[str, Condition]:
    given = {name: spec.automation_condition for name, spec in specs.joints.items()}
    return {name: condition for name, condition in given.items() if condition is not None}


def _spread(assembly: CompiledAssembly, given: Mapping[str, Condition]) -> dict[str, Condition]:
    """Return the conditions, extended to the joints upstream in the same group."""
    conditions = dict(given)
    for group in assembly.fused_groups if given else ():
        for name in reversed(group.joints):
            if name in conditions:
                upstream = map(assembly.joint, assembly.joint(name).upstream)
                inner = (joint.name for joint in upstream if joint.group == group.name and joint.type != SOURCE)
                conditions = dict.fromkeys(inner, conditions[name]) | conditions
    return conditions


def _sources(assembly: CompiledAssembly, specs: AssetSpecs, spec: dg.AssetSpec) -> tuple[dg.AssetKey, ...]:
    """Return the keys of the project's sources among the dependencies of an asset."""
    read = {dep.asset_key: specs.joints_by_key.get(dep.asset_key) for dep in spec.deps}
    return tuple(key for key, name in read.items() if name and assembly.joint(name).type == SOURCE)


def _gated_sources(assembly: CompiledAssembly, joints: Mapping[str, dg.AssetSpec]) -> frozenset[str]:
    """Return the sources with checks that a joint with a condition reads."""
    readers = (assembly.joint(name) for name, spec in joints.items() if spec.automation_condition is not None)
    read = (assembly.joint(name) for reader in readers for name in reader.upstream)
    return frozenset(joint.name for joint in read if joint.type == SOURCE and joint.checks)


def _with_gate_condition(spec: dg.AssetCheckSpec) -> dg.AssetCheckSpec:
    """Return the spec of a source's check, with the condition to evaluate it for each new version of the source."""
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


def freshness_policies(
    assembly: CompiledAssembly, selector: Selector, problems: Problems
) -> Mapping[str, dg.FreshnessPolicy]:
    """Return the policies by joint; if several rules select a joint, the last counts. Errors go to ``problems``."""
    policies: dict[str, dg.FreshnessPolicy] = {}
    for number, rule in enumerate(assembly.dagster.freshness, start=1):
        with problems.of(f"freshness rule {number}", rule.origin):
            joints = selector.select(rule.target)
            refuse_empty(rule.target, joints, (), selector)
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


_KEYS = {
    "RVT-104": ("cron_schedule", "cron"),
    "RVT-115": ("target",),
    "RVT-116": ("target",),
    "RVT-117": ("sources",),
    "RVT-118": ("partition_offset",),
}
"""By error code, the keys of an entry that the error may refer to; the first one that the entry has is taken."""


class Problems:
    """A collection of diagnostics, each at its line of rivet.yaml."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self.diagnostics = list(diagnostics)

    @contextmanager
    def of(self, entry: str, origin: Origin) -> Iterator[None]:
        """Collect the RivetErrors of the block; an error without a line gets the line of the key it refers to.

        ``entry`` names the entry of rivet.yaml in messages.
        """
        try:
            yield
        except RivetError as error:
            for diagnostic in error.diagnostics:
                code = diagnostic.code
                if diagnostic.file is not None:
                    self.diagnostics.append(diagnostic)
                else:
                    key = next((key for key in _KEYS.get(code, ()) if key in origin.lines), None)
                    self.add(entry, origin, code, diagnostic.message, key, diagnostic.remediation)

    def add(
        self,
        entry: str,
        origin: Origin,
        code: str,
        message: str,
        key: str | None = None,
        remediation: str | None = None,
    ) -> None:
        """Add a diagnostic at the line of ``key``."""
        self.diagnostics.append(origin.diagnostic(code, f"{entry}: {message}", key=key, remediation=remediation))

    def raise_all(self) -> None:
        """Raise one RivetError with all diagnostics, without duplicates and ordered by line, if there are any."""
        if self.diagnostics:
            by_line = sorted(
                dict.fromkeys(self.diagnostics), key=lambda problem: (problem.file or "", problem.line or 0)
            )
            raise RivetError.of(by_line)
