"""``rivet-dagster upkeep``: keep the files of a project's tables in order."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.clean_up.upkeep import Kept, Upkept, own_tables, upkeep, upkeep_catalogs
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.loading import compile_directory

_OK, _PARTIAL = 0, 2


def upkeep_command(options: argparse.Namespace) -> int:
    """Do the upkeep of all tables, or of those of some catalogs; see ``upkeep_of``."""
    return upkeep_of(options, options.catalog or (), options.format == "json")


def upkeep_of(options: argparse.Namespace, catalogs: Sequence[str] = (), as_json: bool = False) -> int:
    """Do the upkeep of the project of ``options``, print what was done to each table, and return the exit code.

    It is 2 if it failed for some of the tables.
    """
    root = Path(options.project).resolve()
    assembly = compile_directory(root, options.profile).raise_errors()
    _refuse_unknown(catalogs, assembly)
    tables = own_tables(assembly, catalogs)
    upkept = upkeep(Runtime(assembly, root), tables, None if as_json else _print_table)
    if as_json:
        print(json.dumps(_document(upkept), indent=2))
    else:
        print(f"{len(upkept.tables)} table{'' if len(upkept.tables) == 1 else 's'} kept in order")
        if upkept.errors:
            print(RivetError.of(upkept.errors), file=sys.stderr)
    if not upkept.errors:
        return _OK
    return _PARTIAL if upkept.tables else RivetError.of(upkept.errors).exit_code


def _refuse_unknown(names: Sequence[str], assembly: CompiledAssembly) -> None:
    known = upkeep_catalogs(assembly)
    for name in names:
        if name not in known:
            message = f"this project has no table in a catalog '{name}' that wants upkeep{nearest(name, known)}"
            raise RivetError("RVT-110", message)


def _print_table(kept: Kept) -> None:
    done = "not published yet" if kept.report is None else kept.report.text()
    print(f"{kept.of.catalog}: {kept.of.table}: {done}", flush=True)


def _document(upkept: Upkept) -> dict[str, object]:
    return {
        "success": not upkept.errors,
        "tables": [kept.to_dict() for kept in upkept.tables],
        "errors": [error.to_dict() for error in upkept.errors],
    }
