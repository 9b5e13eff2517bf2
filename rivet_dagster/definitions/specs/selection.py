"""Selections of joints in Dagster's syntax, and the checks `published` of the joints that are published together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import SOURCE


@dataclass(frozen=True, eq=False)
class Selector:
    """A resolver of selections; ``specs`` are those of the joints by name, in topological order."""

    specs: Mapping[str, dg.AssetSpec]

    def select(self, text: str) -> tuple[str, ...]:
        """Return the joints that ``text`` selects, including sources, in topological order. Raises RVT-115."""
        try:
            with beta_accepted():
                keys = dg.AssetSelection.from_string(text).resolve(self._graph)
        except dg.DagsterError as error:
            raise RivetError("RVT-115", f"{text!r} is no asset selection: {error}") from error
        return tuple(name for name, spec in self.specs.items() if spec.key in keys)

    @cached_property
    def _graph(self) -> Any:
        # Dagster resolves selections among materializable assets, so here all are, including sources. They have no
        # partitions here, since a step has at most one partitions definition.
        @dg.multi_asset(specs=[spec.replace_attributes(partitions_def=None) for spec in self.specs.values()])
        def everything():  # type: ignore[no-untyped-def]  # Dagster takes an annotation for the outputs' type
            ...

        return dg.Definitions(assets=[everything]).resolve_asset_graph()


def without_sources(assembly: CompiledAssembly, text: str, selected: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joints ``selected`` by ``text`` that can be materialized. Raises RVT-115 if there are none."""
    joints = tuple(name for name in selected if assembly.joint(name).type != SOURCE)
    if not joints:
        outcome = f"only {', '.join(selected)}, which can only be read" if selected else "nothing of this project"
        raise RivetError("RVT-115", f"{text!r} selects {outcome}")
    return joints


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
    names = {check.name for check in assembly.joint(joint).checks}
    return dg.AssetCheckKey(keys[joint], PUBLISHED if PUBLISHED not in names else f"{PUBLISHED}_with_the_run")


@contextmanager
def beta_accepted() -> Iterator[None]:
    """Silence Dagster's BetaWarning, which it repeats with each use, for thousands of joints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
