"""Adding the automation conditions and freshness policies that rivet.yaml declares to the specs of a project.

Errors of the ``dagster:`` block, collected to be raised as one error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.automation.conditions import Condition, automation_condition, for_sources, gate_condition
from rivet_dagster.definitions.specs.selection import Selector, published_key, published_with_run, without_sources
from rivet_dagster.definitions.specs.translator import AssetSpecs
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.automation import FreshnessRule
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.text_lines import Origin


def with_rules(
    assembly: CompiledAssembly, specs: AssetSpecs, selector: Selector
) -> tuple[AssetSpecs, Sequence[Diagnostic]]:
    """Return the specs with the conditions and policies of the rules, and the errors of the rules.

    Conditions and policies that a spec already has are not changed. If several rules select a joint, the last counts. A
    condition is also given to the joints before it in its group that have none, since it would otherwise not see new
    versions of what only they read. The checks of a gated source get a condition if a joint with a condition reads it.
    """
    problems = Problems()
    published = [published_key(assembly, specs.keys, name) for name in published_with_run(assembly)]
    declared = _conditions(assembly, selector, problems, published)
    conditions = _spread(assembly, {**declared, **_own_conditions(specs)})
    policies = freshness_policies(assembly, selector, problems)
    joints = dict(specs.joints)
    known: dict[tuple[int, tuple[dg.AssetKey, ...]], Condition] = {}
    for name in conditions.keys() | policies.keys():
        spec = joints[name]
        condition = conditions.get(name)
        if condition is not None:
            # Most joints share a condition and read no source: one object serves them all.
            sources = _sources(assembly, specs, spec)
            same = (id(condition), sources)
            condition = known.get(same) or known.setdefault(same, for_sources(condition, sources))
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
            joints = without_sources(assembly, rule.target, selector.select(rule.target))
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
