"""Upkeep of the tables that a project writes, and of no others of its catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, UpkeepReport
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.inputs import at_joint
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
    """A table and what was done to it; ``report`` is None if it has not been published yet."""

    of: OwnTable
    report: UpkeepReport | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        done = {"published": False} if self.report is None else {"published": True, **asdict(self.report)}
        return {"catalog": self.of.catalog, "table": self.of.table, "joint": self.of.joint, **done}


@dataclass(frozen=True)
class Upkept:
    """What an upkeep did, table by table, and the errors of tables that it failed for."""

    tables: tuple[Kept, ...]
    errors: tuple[Diagnostic, ...]

    def raise_errors(self) -> None:
        """Raise all errors as one RivetError, if there are any."""
        if self.errors:
            raise RivetError.of(self.errors)


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


def upkeep(runtime: Runtime, tables: Sequence[OwnTable], done: Callable[[Kept], None] | None = None) -> Upkept:
    """Do the upkeep of tables, which are grouped by engine; ``done`` is called after each.

    An error of one table does not stop the others.
    """
    kept: list[Kept] = []
    errors: list[Diagnostic] = []
    for engine, of_engine in groupby(tables, key=lambda table: table.engine):
        try:
            with closing(runtime.engine(engine).session()) as session:
                for table in of_engine:
                    runtime.check_interrupt()
                    try:
                        catalog = capable(runtime.catalog(table.catalog), HasUpkeep)
                        kept.append(Kept(table, catalog.upkeep(table.table, session)))
                    except RivetError as error:
                        errors += at_joint(error, runtime.assembly.joint(table.joint)).diagnostics
                        continue
                    if done is not None:
                        done(kept[-1])
        except RivetError as error:  # no session: none of the engine's tables can be treated
            errors += error.diagnostics
    return Upkept(tuple(kept), tuple(errors))


def _wants_upkeep(catalog: type, options: Any) -> bool:
    return issubclass(catalog, HasUpkeep) and catalog.wants_upkeep(options)


def _written(assembly: CompiledAssembly) -> Iterator[OwnTable]:
    for group in assembly.fused_groups:
        target = group.target
        if target is not None:
            yield OwnTable(target.catalog, target.table, group.exit, group.engine)
            if target.errors is not None:
                yield OwnTable(target.catalog, target.errors.table, group.exit, group.engine, is_errors=True)
