"""``rivet-dagster show``: rows of a joint, computed now."""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import reserve_stdout, show
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.showing import ShownRows, shown_rows


def show_joint(
    root: Path,
    profile: str | None,
    name: str,
    limit: int,
    where: str | None,
    format: str,
    engine: str | None = None,
) -> int:
    """Print rows of a joint as a table, JSON or CSV, computed by its engines or by ``engine``."""
    root = root.resolve()
    assembly = compile_for_command(root, profile, recall=True).raise_errors()
    known = [joint.name for joint in assembly.joints]
    if name not in known:
        raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")
    if engine is not None:
        only = needed_joints(assembly, name)
        assembly = compile_for_command(root, profile, recall=True, engine=engine, only=only).raise_errors()
    with reserve_stdout():
        shown = shown_rows(Runtime(assembly, root), name, limit, where)
    {"table": _as_table, "json": _as_json, "csv": _as_csv}[format](shown)
    return 0


def needed_joints(assembly: CompiledAssembly, name: str) -> set[str]:
    """Return the joint and all that it, or a check of one of them, is computed from."""
    needed: set[str] = set()
    waiting = [name]
    while waiting:
        joint = assembly.joint(waiting.pop())
        if joint.name not in needed:
            needed.add(joint.name)
            waiting += [*joint.upstream, *(read for check in joint.checks for read in check.reads)]
    return needed


def _as_table(shown: ShownRows) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column, type_ in shown.columns:
        numeric = type_.split("(")[0] in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
        table.add_column(column, justify="right" if numeric else "left")
    for row in shown.rows:
        table.add_row(*("NULL" if value is None else _text(value) for value in row.values()))
    show(table)


def _as_json(shown: ShownRows) -> None:
    columns = [{"name": name, "type": type_} for name, type_ in shown.columns]
    rows = [{name: _plain(value) for name, value in row.items()} for row in shown.rows]
    print(json.dumps({"columns": columns, "rows": rows}, indent=2, ensure_ascii=False))


def _as_csv(shown: ShownRows) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([name for name, _ in shown.columns])
    writer.writerows(["" if value is None else _text(value) for value in row.values()] for row in shown.rows)


def _text(value: Any) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers, booleans and NULL as they are, nested values, and all others as texts."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case Mapping():
            return {_text(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return str(value)
