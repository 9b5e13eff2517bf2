"""Full refreshes: runs that replace their targets as first runs would. Those that would lose rows are refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.contract import NeedsEngine
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.landing import landing_sources, landing_zone
from rivet_dagster.execution.row_error import locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import ReplaceAll, refresh_plan


def refuse_lossy_refresh(runtime: Runtime, groups: Collection[str]) -> None:
    """Raise what is wrong with a full refresh of ``groups`` in one run, all of it at once.

    RVT-413 if a catalog cannot do it. RVT-525 if a table would lose rows: since files of a landing zone have been
    archived, or since a stored joint that holds only new rows is not among the groups.
    """
    assembly = runtime.assembly
    errors: list[Diagnostic] = []
    new_rows = _storing_new_rows(assembly)
    zones: dict[str, SourceJoint] = {}
    for name in assembly.execution_order:
        group = assembly.group(name)
        if name not in groups or group.target is None:
            continue
        catalog = runtime.target_catalog(group.target.catalog)
        errors += _incapable(catalog, group, group.target)
        supplying = _supplying(assembly, group, new_rows)
        landed = [source for each in (group, *supplying) for source in landing_sources(assembly, each)]
        left_out = [other for other in supplying if other.name not in groups]
        # The table is looked up where that decides something: each step of a run comes here for all of its tables.
        if (landed or left_out) and _accumulates(catalog, group.target):
            zones |= {source.name: source for source in landed}
            errors += [error for other in left_out for error in _left_out(other, group)]
    errors += [error for source in zones.values() for error in _archived(runtime, source)]
    if errors:
        raise RivetError.of(errors)


def refuse_incapable(catalog: HasTargets, group: FusedGroup, target: Target) -> None:
    """Raise RVT-413 if the catalog cannot carry out a full refresh of the group's table."""
    errors = list(_incapable(catalog, group, target))
    if errors:
        raise RivetError.of(errors)


def _incapable(catalog: HasTargets, group: FusedGroup, target: Target) -> Iterator[Diagnostic]:
    if type(refresh_plan(target.write)) not in catalog.write_plans:
        message = (
            f"the catalog '{target.catalog}', of the type {catalog.type}, cannot replace the table {target.table} as a "
            "first run would make it"
        )
        remedy = "Run it without the full refresh, or use a catalog of another type for it."
        yield Diagnostic("RVT-413", message, joint=group.exit, remediation=remedy)


def _accumulates(catalog: HasTargets, target: Target) -> bool:
    """Return whether the table holds the rows of several runs; so one may that only an engine can look up."""
    if isinstance(target.write, ReplaceAll):
        return False
    return isinstance(catalog, NeedsEngine) or catalog.current(target.table) is not None


def _storing_new_rows(assembly: CompiledAssembly) -> set[str]:
    """Return the groups that store only the rows of their last run: new rows, or what was computed from such."""
    names: set[str] = set()
    for name in assembly.execution_order:
        group = assembly.group(name)
        if group.target is None or not isinstance(group.target.write, ReplaceAll):
            continue
        is_incremental = any(cte.incremental is not None for cte in group.ctes)
        if is_incremental or landing_sources(assembly, group) or names & _read_by(assembly, group):
            names.add(name)
    return names


def _supplying(assembly: CompiledAssembly, group: FusedGroup, new_rows: set[str]) -> list[FusedGroup]:
    """Return the groups in ``new_rows`` from which the rows of ``group`` come."""
    groups: list[FusedGroup] = []
    names = {group.name}
    waiting = [group]
    while waiting:
        for name in sorted(_read_by(assembly, waiting.pop()) & new_rows - names):
            names.add(name)
            groups.append(assembly.group(name))
            waiting.append(assembly.group(name))
    return groups


def _read_by(assembly: CompiledAssembly, group: FusedGroup) -> set[str]:
    return {assembly.joint(joint).group for joint in group.inputs}


def _left_out(supplying: FusedGroup, group: FusedGroup) -> Iterator[Diagnostic]:
    message = (
        f"a full refresh of '{group.name}' alone would lose rows: '{supplying.name}', which it reads, holds only the "
        "rows that were new to it"
    )
    remedy = f"Refresh both in one run: `rivet-dagster run +{group.name} --full-refresh`, or select both in Dagster."
    yield Diagnostic("RVT-525", message, joint=group.exit, remediation=remedy)


def _archived(runtime: Runtime, source: SourceJoint) -> Iterator[Diagnostic]:
    if source.landing is None or not source.landing.archive:
        return
    with locating_errors(source):
        file = landing_zone(runtime, source).archived()
    if file is not None:
        message = f"a full refresh would lose the rows of files that have been archived, such as {file}"
        remedy = (
            "Move them back into the landing zone, and refresh all its readers in one run; or move them elsewhere, to "
            "do without their rows."
        )
        yield Diagnostic("RVT-525", message, source.name, source.file, source.line, remedy)
