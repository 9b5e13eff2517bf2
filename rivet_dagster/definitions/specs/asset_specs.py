"""The specs of all assets and checks of a plan, made by a translator in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.definitions.specs.context import TranslationContext
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.model.external_assets import is_external, key_path


@dataclass(frozen=True, eq=False)
class AssetSpecs:
    """The Dagster specs of a plan.

    ``keys`` are the asset keys of all joints by name. ``joints`` are the specs, in topological order, of those joints
    that are assets of the project: all but the sources that are external assets. ``errors`` are those of error tables,
    by the joint beside whose table they are published. ``checks`` are the specs of all checks, by the names of joint
    and check.
    """

    keys: Mapping[str, dg.AssetKey]
    joints: Mapping[str, dg.AssetSpec]
    errors: Mapping[str, dg.AssetSpec]
    checks: Mapping[tuple[str, str], dg.AssetCheckSpec]

    @cached_property
    def joints_by_key(self) -> Mapping[dg.AssetKey, str]:
        """The names of the joints that are assets of the project, by asset key, in topological order."""
        return {spec.key: name for name, spec in self.joints.items()}

    @cached_property
    def errors_by_key(self) -> Mapping[dg.AssetKey, str]:
        """The joints whose error table an asset is, by asset key."""
        return {spec.key: name for name, spec in self.errors.items()}


def asset_specs(assembly: CompiledAssembly, root: Path, translator: DagsterRivetTranslator) -> AssetSpecs:
    """Return the specs that ``translator`` makes for a plan; ``root`` is the project's directory.

    A joint is translated after the joints that it reads, so that their keys are known.
    """
    ordered = list(_in_order(assembly))
    keys = {joint.name: dg.AssetKey(key_path(str(joint.table))) for joint in ordered if is_external(joint)}
    context = TranslationContext(assembly, root, MappingProxyType(keys))
    joints: dict[str, dg.AssetSpec] = {}
    for joint in ordered:
        if not is_external(joint):
            joints[joint.name] = translator.get_asset_spec(joint, context)
            keys[joint.name] = joints[joint.name].key
    errors = {
        joint.name: translator.get_errors_asset_spec(joint, joints[joint.name], context)
        for joint in ordered
        if (target := assembly.target(joint.name)) is not None and target.errors is not None
    }
    checks = {
        (joint.name, check.name): translator.get_asset_check_spec(check, joint, context)
        for joint in ordered
        for check in joint.checks
    }
    return AssetSpecs(keys, joints, errors, checks)


def _in_order(assembly: CompiledAssembly) -> Iterator[CompiledJoint]:
    """Yield the joints in topological order."""
    for group in assembly.execution_order:
        yield from map(assembly.joint, assembly.group(group).joints)
