"""The project: whether it compiles and loads, and what it then needs of a Dagster instance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.cli.doctor.needs import Needs
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_pool
from rivet_dagster.engines.registry import concurrency_limit
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.joint import SOURCE

_ON = (dg.DefaultScheduleStatus.RUNNING, dg.DefaultSensorStatus.RUNNING)


def project(root: Path, profile: str | None) -> tuple[tuple[Finding, ...], Needs]:
    """What is wrong with the project, and what it needs: nothing where it does not load."""
    try:
        found = RivetProject.load(root, profile)
        definitions = build_definitions(found)
    except RivetError as error:
        return broken("project", error), Needs()
    assembly = found.assembly
    groups = sum(assembly.joint(group.exit).type != SOURCE for group in assembly.fused_groups)
    text = f"profile {assembly.profile}: {_count(len(assembly.joints), 'joint')}, made by {_count(groups, 'step')}"
    warnings = (
        doubtful("project", str(one).partition("\n")[0], one.remediation or "See `rivet-dagster compile`.")
        for one in assembly.warnings
    )
    return (in_order("project", text), *warnings), needs_of(definitions, found)


def needs_of(definitions: dg.Definitions, project: RivetProject) -> Needs:
    """What the definitions of a project need."""
    ticking: list[Any] = [*(definitions.schedules or ()), *(definitions.sensors or ())]
    specs = definitions.resolve_all_asset_specs()
    limits = {engine_pool(spec.name): concurrency_limit(spec) for spec in project.assembly.engines}
    steps = [one.op for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)]
    return Needs(
        pools=limits,
        named=tuple(sorted({step.pool for step in steps if step.pool is not None} - limits.keys())),
        ticking=_names(ticking),
        running=_names(one for one in ticking if one.default_status in _ON),
        fresh=tuple(sorted(spec.key.to_user_string() for spec in specs if spec.freshness_policy is not None)),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _names(definitions: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(one.name for one in definitions))
