"""Selections of joints in Dagster's syntax, and the checks `published` of the joints that are published together."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.selections import (
    GROUP,
    KEY,
    KIND,
    OWNER,
    TAG,
    SelectableAsset,
    empty_selection,
    near_values,
)
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import SOURCE


@dataclass(frozen=True, eq=False)
class Selector:
    """A resolver of selections; ``specs`` are those of the joints by name, in topological order."""

    specs: Mapping[str, dg.AssetSpec]

    def select(self, text: str) -> tuple[str, ...]:
        """Return the joints that ``text`` selects, including sources, in topological order. Raises RVT-115."""
        # Of attributes that it knows in its UI alone, as of columns, Dagster raises no public type of error.
        try:
            with beta_accepted():
                keys = dg.AssetSelection.from_string(text).resolve(self._graph)
        except dg.DagsterInvalidSubsetError:  # it is a key alone, which no asset has
            return ()
        except Exception as error:
            reason = str(error) or "Dagster resolves it in its UI alone"
            raise RivetError("RVT-115", f"{text!r} is no asset selection: {reason}") from error
        return tuple(name for name, spec in self.specs.items() if spec.key in keys)

    def near(self, text: str) -> str:
        """Return the end of a message about a selection of nothing: the values of attributes that it may mean."""
        specs = self.specs.values()
        known = {
            KEY: {spec.key.to_user_string() for spec in specs},
            GROUP: {spec.group_name for spec in specs if spec.group_name is not None},
            TAG: {tag for spec in specs for tag in spec.tags},
            OWNER: {owner for spec in specs for owner in spec.owners},
            KIND: {kind for spec in specs for kind in spec.kinds},
        }
        return near_values(text, known)

    @cached_property
    def _graph(self) -> Any:
        # Dagster resolves selections among materializable assets, so here all are, including sources. They have no
        # partitions here, since a step has at most one partitions definition.
        @dg.multi_asset(specs=[spec.replace_attributes(partitions_def=None) for spec in self.specs.values()])
        def everything():  # type: ignore[no-untyped-def]  # Dagster takes an annotation for the outputs' type
            ...

        return dg.Definitions(assets=[everything]).resolve_asset_graph()


def select_joints(assets: Sequence[SelectableAsset], texts: Sequence[str]) -> list[Sequence[str] | str]:
    """Return for each text the joints that it selects, in the order of ``assets``; a message for one that is none.

    Raises RVT-115 if Dagster refuses one of the assets.
    """
    try:
        specs = {
            asset.joint: dg.AssetSpec(
                key=list(asset.key),
                deps=[dg.AssetKey(list(key)) for key in asset.deps],
                group_name=asset.group,
                tags=dict(asset.tags),
                owners=list(asset.owners),
                kinds=set(asset.kinds),
            )
            for asset in assets
        }
    except dg.DagsterError as error:
        raise RivetError("RVT-115", f"Dagster refuses an asset: {error}") from error
    selector = Selector(specs)
    answers: list[Sequence[str] | str] = []
    for text in texts:
        try:
            answers.append(selector.select(text))
        except RivetError as error:
            answers.append(error.diagnostics[0].message)
    return answers


def without_sources(
    assembly: CompiledAssembly, text: str, selected: tuple[str, ...], selector: Selector
) -> tuple[str, ...]:
    """Return the joints ``selected`` by ``text`` that can be materialized. Raises RVT-115 if there are none."""
    sources = {name for name in selected if assembly.joint(name).type == SOURCE}
    refuse_empty(text, selected, sources, selector)
    return tuple(name for name in selected if name not in sources)


def refuse_empty(text: str, selected: Collection[str], sources: Collection[str], selector: Selector) -> None:
    """Raise RVT-115 if ``text`` selects nothing, or ``sources`` alone."""
    why = empty_selection(text, list(selected), sources)
    if why is not None:
        raise RivetError("RVT-115", f"{why}{selector.near(text)}")


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
