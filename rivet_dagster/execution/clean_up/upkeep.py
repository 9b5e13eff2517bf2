"""Upkeep of the tables that a project writes, and of no others of its catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, UpkeepReport
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.error_location import locate_at_joint
from rivet_dagster.execution.runtime import Runtime


@dataclass(frozen=True)
class OwnTable:
    """A table of a project: the one of a stored ``joint``, or, with ``is_errors``, the error table beside it."""

    catalog: str
    table: str
    joint: str
    engine: str
    is_errors: bool = False


@dataclass(frozen=True)
class Kept:
    """A table and what was done to it; ``report`` is None if it has not been published yet, or if it failed."""

    of: OwnTable
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


def own_tables(assembly: CompiledAssembly, catalogs: Sequence[str] = ()) -> tuple[OwnTable, ...]:
    """Return the tables that want upkeep, in ``catalogs`` or, without any, in all, ordered by engine and name."""
    known = upkeep_catalogs(assembly)
    tables = [table for table in _written(assembly) if table.catalog in known and table.catalog in (catalogs or known)]
    return tuple(sorted(tables, key=lambda table: (table.engine, table.catalog, table.table)))


def upkeep(runtime: Runtime, tables: Iterable[OwnTable]) -> Iterator[Kept]:
    """Do the upkeep of tables, which are grouped by engine, and yield each; errors of one do not stop the others."""
    for engine, of_engine in groupby(tables, key=lambda table: table.engine):
        try:
            session = runtime.engine(engine).session()
        except RivetError as error:
            yield from (Kept(table, None, error.diagnostics) for table in of_engine)
            continue
        with closing(session):
            yield from (_kept(runtime, table, session) for table in of_engine)


def _kept(runtime: Runtime, table: OwnTable, session: EngineSession) -> Kept:
    runtime.check_interrupt()
    try:
        catalog = capable(runtime.catalog(table.catalog), HasUpkeep)
        return Kept(table, catalog.upkeep(table.table, session))
    except RivetError as error:
        return Kept(table, None, locate_at_joint(error, runtime.assembly.joint(table.joint)).diagnostics)


def errors_of(tables: Iterable[Kept]) -> tuple[Diagnostic, ...]:
    """Return the errors of tables; one that several have, such as an engine's, is there once."""
    return tuple(dict.fromkeys(error for kept in tables for error in kept.errors))


def _wants_upkeep(catalog: type, options: Any) -> bool:
    return issubclass(catalog, HasUpkeep) and catalog.wants_upkeep(options)


def _written(assembly: CompiledAssembly) -> Iterator[OwnTable]:
    for group in assembly.fused_groups:
        target = group.target
        if target is not None:
            yield OwnTable(target.catalog, target.table, group.exit, group.engine)
            if target.errors is not None:
                yield OwnTable(target.catalog, target.errors.table, group.exit, group.engine, is_errors=True)
