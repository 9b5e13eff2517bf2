"""TranslationContext: the view of a project that a translator has while specs are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly


@dataclass(frozen=True)
class TranslationContext:
    """The read-only view of a project that is passed to the methods of a translator.

    ``assembly`` is the plan, ``root`` the absolute path of the project's directory. ``asset_keys`` are the keys known
    so far: for a joint those of the joints before it, which include its upstream; for a check those of all joints.
    """

    assembly: CompiledAssembly
    root: Path
    asset_keys: Mapping[str, dg.AssetKey]

    def key(self, joint: str) -> dg.AssetKey:
        """Return the asset key of a joint; for a source that is an external asset, the key of that asset.

        Raises RVT-306 if no joint has that name, KeyError if the joint has not been translated yet.
        """
        return self.asset_keys[self.assembly.joint(joint).name]

    def keys(self, joints: Iterable[str]) -> list[dg.AssetKey]:
        """Return the asset keys of joints, in their order. Raises as ``key`` does."""
        return [self.key(joint) for joint in joints]
