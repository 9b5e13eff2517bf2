"""The view of a project that a translator has while the specs are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly


@dataclass(frozen=True)
class TranslationContext:
    """The read-only view of a project that the methods of a translator get.

    ``assembly`` is the plan, ``root`` the absolute path of the project's directory. ``asset_keys`` are the keys that
    are known already: those of all joints before the one that is translated, and of all joints for a check.
    """

    assembly: CompiledAssembly
    root: Path
    asset_keys: Mapping[str, dg.AssetKey]

    def key(self, joint: str) -> dg.AssetKey:
        """Return the asset key of a joint that comes before; of a source that is an external asset, the key of that.

        Raises RVT-306 where no joint has that name, KeyError where the joint comes later.
        """
        return self.asset_keys[self.assembly.joint(joint).name]

    def keys(self, joints: Iterable[str]) -> list[dg.AssetKey]:
        """Return the asset keys of joints, in their order, as ``key`` does."""
        return [self.key(joint) for joint in joints]
