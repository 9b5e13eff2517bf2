"""The project: whether it compiles and loads, and what it needs of the Dagster instance that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_pool
from rivet_dagster.engines.registry import concurrency_limit
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.joint import SOURCE

_ON = (dg.DefaultScheduleStatus.RUNNING, dg.DefaultSensorStatus.RUNNING)


def project(root: Path, profile: str | None) -> tuple[tuple[Finding, ...], Needs]:
    """Return the findings of the project and its needs; a project that does not load has none."""
    try:
        loaded = RivetProject.load(root, profile)
        definitions = build_definitions(loaded)
    except RivetError as error:
        return broken("project", error), Needs()
    assembly = loaded.assembly
    groups = sum(assembly.joint(group.exit).type != SOURCE for group in assembly.fused_groups)
    text = f"profile {assembly.profile}: {_count(len(assembly.joints), 'joint')}, made by {_count(groups, 'step')}"
    warnings = (
        doubtful("project", str(warning).partition("\n")[0], warning.remediation or "See `rivet-dagster compile`.")
        for warning in assembly.warnings
    )
    return (in_order("project", text), *warnings), needs_of(definitions, loaded)


def needs_of(definitions: dg.Definitions, project: RivetProject) -> Needs:
    """Return what the definitions of a project need of the instance."""
    ticking: list[Any] = [*(definitions.schedules or ()), *(definitions.sensors or ())]
    specs = definitions.resolve_all_asset_specs()
    limits = {engine_pool(spec.name): concurrency_limit(spec) for spec in project.assembly.engines}
    steps = [asset.op for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
    return Needs(
        pools=limits,
        named=tuple(sorted({step.pool for step in steps if step.pool is not None} - limits.keys())),
        ticking=_names(ticking),
        running=_names(trigger for trigger in ticking if trigger.default_status in _ON),
        fresh=tuple(sorted(spec.key.to_user_string() for spec in specs if spec.freshness_policy is not None)),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _names(definitions: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(definition.name for definition in definitions))


@dataclass(frozen=True)
class Needs:
    """The requirements of a project on its Dagster instance.

    ``pools`` are the limits of its engines' pools by name, ``named`` the other pools that joints name. ``ticking`` are
    its schedules and sensors, ``running`` those that run by default; ``fresh`` are the assets with a freshness policy.
    """

    pools: Mapping[str, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    ticking: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
