"""``rivet-dagster upkeep`` and ``sweep``: tables kept in order, and the leftovers of dead runs removed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.upkeep import Sweeps
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.clean_up import errors_of, own_tables, sweep, upkeep, upkeep_catalogs
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.project.load import load_project

_OK, _PARTIAL = 0, 2


def upkeep_of(root: Path, profile: str | None, catalogs: Sequence[str] = (), as_json: bool = False) -> int:
    """Do the upkeep of all tables, or of those of some catalogs; print what was done, and return the exit code.

    It is 2 if it failed for some of the tables.
    """
    root = root.resolve()
    assembly = compile_for_command(root, profile).raise_errors()
    _refuse_unknown(catalogs, assembly)
    done = []
    for outcome in upkeep(Runtime(assembly, root), own_tables(assembly, catalogs)):
        done.append(outcome)
        if not as_json:
            print(outcome.text(), flush=True)
    errors, in_order = errors_of(done), [outcome for outcome in done if not outcome.errors]
    if as_json:
        tables = [outcome.to_dict() for outcome in in_order]
        print(json.dumps({"success": not errors, "tables": tables, "errors": [e.to_dict() for e in errors]}, indent=2))
    else:
        print(f"{len(in_order)} table{'' if len(in_order) == 1 else 's'} kept in order")
    if not errors:
        return _OK
    error = RivetError.of(errors)
    if not as_json:
        print(error, file=sys.stderr)
    return _PARTIAL if in_order else error.exit_code


def _refuse_unknown(names: Sequence[str], assembly: CompiledAssembly) -> None:
    known = upkeep_catalogs(assembly)
    for name in names:
        if name not in known:
            message = f"this project has no table in a catalog '{name}' that wants upkeep{nearest(name, known)}"
            raise RivetError("RVT-110", message)


def sweep_catalogs(root: Path, profile: str | None) -> None:
    """Sweep every catalog, print what was removed, then raise the errors; the joints need not compile.

    Catalogs that are written to and cannot sweep are named.
    """
    specs = load_project(root, profile).profile.catalogs
    catalogs = [open_catalog(spec, root, os.environ) for spec in specs]
    swept = sweep(catalogs)
    for catalog in catalogs:
        if isinstance(catalog, HasTargets) and not isinstance(catalog, Sweeps):
            print(f"{catalog.name}: not swept: catalogs of the type {catalog.type} cannot", file=sys.stderr)
    for name in swept.names:
        print(f"removed {name}")
    print(f"{len(swept.names)} leftover{'' if len(swept.names) == 1 else 's'} of dead runs removed")
    swept.raise_errors()
