"""The keys of the checks `published`, whose step publishes the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly

LAST_STEP = "publish"
"""The name of the step, behind the key prefix."""

PUBLISHED = "published"
"""The name of the check, unless the joint has a check of that name."""


def published_with_run(assembly: CompiledAssembly) -> tuple[str, ...]:
    """Return the stored joints that the last step of a run publishes, in topological order."""
    targets = {name: assembly.group(name).target for name in assembly.execution_order}
    return tuple(name for name, target in targets.items() if target is not None and target.with_run)


def published_key(assembly: CompiledAssembly, keys: Mapping[str, dg.AssetKey], joint: str) -> dg.AssetCheckKey:
    """Return the key of the check of a joint; ``keys`` are the asset keys of joints."""
    own = {check.name for check in assembly.joint(joint).checks}
    return dg.AssetCheckKey(keys[joint], PUBLISHED if PUBLISHED not in own else f"{PUBLISHED}_with_the_run")
