"""What is removed: read files of landing zones, rows that nobody reads again, what dead runs left, old versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, Sweeps, UpkeepReport
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.catalogs.versions.heartbeat import DEAD_AFTER
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.landing import (
    consumed_files_of_readers,
    landing_sources_before,
    landing_zone,
    last_version,
)
from rivet_dagster.execution.row_error import locate_at_joint
from rivet_dagster.execution.runtime import Runtime


def archive_read_files(runtime: Runtime, group: FusedGroup) -> RivetError | None:
    """Archive the files of the landing zones before the group that all readers have consumed.

    The archive folder has the name of the group's published version. Return the error (RVT-410) for files that could
    not be archived, None if all could; the next run of a reader tries it again. A run in an environment archives none:
    the base has not read them.
    """
    if runtime.environment is not None:
        return None
    zones = landing_sources_before(runtime.assembly, group)
    sources = [source for source in zones if source.landing and source.landing.archive]
    version = last_version(runtime, runtime.assembly.joint(group.exit)) if sources else None
    if version is None:
        return None
    failed: list[Diagnostic] = []
    for source in sources:
        try:
            files = frozenset.intersection(*(reading.known for reading in consumed_files_of_readers(runtime, source)))
            landing_zone(runtime, source).archive(sorted(files), version.version)
        except RivetError as error:
            failed += locate_at_joint(error, source).diagnostics
    return RivetError.of(failed) if failed else None


def evict(runtime: Runtime, group_name: str, is_newer: Callable[[str, str], bool]) -> tuple[str, ...]:
    """Evict the stored joints that no group needs any more now that this one has succeeded, and return their names.

    ``is_newer(reader, joint)`` says whether the joint ``reader`` was last materialized after ``joint``. A joint that
    the plan evicts after several groups stays until each of them has read it.
    """
    assembly = runtime.assembly
    evicted = []
    for stored in assembly.materializations:
        target = assembly.target(stored.joint)
        if target is None or target.retention != "run" or group_name not in stored.evict_after:
            continue
        if all(is_newer(assembly.group(reader).exit, stored.joint) for reader in stored.evict_after):
            catalog = runtime.target_catalog(target.catalog)
            published = catalog.current(target.table)
            if published is not None and published.environment == runtime.environment:
                catalog.evict(published)
                evicted.append(stored.joint)
    return tuple(evicted)


@dataclass(frozen=True)
class Swept:
    """The removed versions, as ``catalog: table/version``, and the errors of tables that could not be swept."""

    names: tuple[str, ...]
    errors: tuple[Diagnostic, ...]

    def raise_errors(self) -> None:
        """Raise all errors as one RivetError, if there are any."""
        if self.errors:
            raise RivetError.of(self.errors)


def sweep(catalogs: Iterable[Catalog]) -> Swept:
    """Remove the versions of runs that count as dead now, and environments that are abandoned or half removed.

    An error of one table does not stop the others.
    """
    names: list[str] = []
    errors: list[RivetError] = []
    for catalog in catalogs:
        try:
            if isinstance(catalog, Sweeps):
                names += [f"{catalog.name}: {name}" for name in catalog.sweep(errors.append)]
            if isinstance(catalog, HasEnvironments):
                names += [f"{catalog.name}: environment {name}" for name in catalog.sweep_environments()]
        except RivetError as error:
            errors.append(error)
    return Swept(tuple(names), tuple(diagnostic for error in errors for diagnostic in error.diagnostics))


def sweep_patiently(catalogs: Iterable[Catalog]) -> Swept:
    """Sweep, and if any version is being built, sweep once more after a minute.

    A run that has just died counts as alive for a minute.
    """
    catalogs = tuple(catalogs)
    swept = sweep(catalogs)
    if _any_is_building(catalogs):
        time.sleep(DEAD_AFTER + 1)
        later = sweep(catalogs)
        return Swept(swept.names + later.names, later.errors)
    return swept


def _any_is_building(catalogs: Iterable[Catalog]) -> bool:
    for catalog in _sweeping(catalogs):
        with suppress(RivetError):  # the sweep has reported it
            if catalog.building():
                return True
    return False


def _sweeping(catalogs: Iterable[Catalog]) -> Iterator[Sweeps]:
    return (catalog for catalog in catalogs if isinstance(catalog, Sweeps))


@dataclass(frozen=True)
class ProjectTable:
    """A table of a project: the one of a stored ``joint``, or, with ``is_errors``, the error table beside it."""

    catalog: str
    table: str
    joint: str
    engine: str
    is_errors: bool = False


@dataclass(frozen=True)
class UpkeptTable:
    """A table and what was done to it; ``report`` is None if it has not been published yet, or if it failed."""

    of: ProjectTable
    report: UpkeepReport | None
    errors: tuple[Diagnostic, ...] = ()

    def text(self) -> str:
        """Return it as a line."""
        if self.errors:
            return f"{self.of.catalog}: {self.of.table}: failed"
        done = "not published yet" if self.report is None else self.report.text()
        return f"{self.of.catalog}: {self.of.table}: {done}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        done = {"published": False} if self.report is None else {"published": True, **asdict(self.report)}
        return {"catalog": self.of.catalog, "table": self.of.table, "joint": self.of.joint, **done}


def upkeep_catalogs(assembly: CompiledAssembly) -> tuple[str, ...]:
    """Return the catalogs whose tables want upkeep, if the project writes any there; nothing is opened."""
    written = {group.target.catalog for group in assembly.fused_groups if group.target is not None}
    return tuple(
        spec.name
        for spec in assembly.catalogs
        if spec.name in written and _wants_upkeep(catalog_class(spec.type), spec.options)
    )


def own_tables(assembly: CompiledAssembly, catalogs: Sequence[str] = ()) -> tuple[ProjectTable, ...]:
    """Return the tables that want upkeep, in ``catalogs`` or, without any, in all, ordered by engine and name."""
    known = upkeep_catalogs(assembly)
    tables = [table for table in _written(assembly) if table.catalog in known and table.catalog in (catalogs or known)]
    return tuple(sorted(tables, key=lambda table: (table.engine, table.catalog, table.table)))


def upkeep(runtime: Runtime, tables: Iterable[ProjectTable]) -> Iterator[UpkeptTable]:
    """Do the upkeep of tables, which are grouped by engine, and yield each; errors of one do not stop the others."""
    for engine, of_engine in groupby(tables, key=lambda table: table.engine):
        try:
            session = runtime.engine(engine).session()
        except RivetError as error:
            yield from (UpkeptTable(table, None, error.diagnostics) for table in of_engine)
            continue
        with closing(session):
            yield from (_upkeep_table(runtime, table, session) for table in of_engine)


def _upkeep_table(runtime: Runtime, table: ProjectTable, session: EngineSession) -> UpkeptTable:
    runtime.check_interrupt()
    try:
        catalog = capable(runtime.catalog(table.catalog), HasUpkeep)
        return UpkeptTable(table, catalog.upkeep(table.table, session))
    except RivetError as error:
        return UpkeptTable(table, None, locate_at_joint(error, runtime.assembly.joint(table.joint)).diagnostics)


def errors_of(tables: Iterable[UpkeptTable]) -> tuple[Diagnostic, ...]:
    """Return the errors of tables; one that several have, such as an engine's, is there once."""
    return tuple(dict.fromkeys(error for table in tables for error in table.errors))


def _wants_upkeep(catalog: type, options: Any) -> bool:
    return issubclass(catalog, HasUpkeep) and catalog.wants_upkeep(options)


def _written(assembly: CompiledAssembly) -> Iterator[ProjectTable]:
    for group in assembly.fused_groups:
        target = group.target
        if target is not None:
            yield ProjectTable(target.catalog, target.table, group.exit, group.engine)
            if target.errors is not None:
                yield ProjectTable(target.catalog, target.errors.table, group.exit, group.engine, is_errors=True)
