"""``rivet-dagster diff``: what an environment would change in the base, as data for JSON or as text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import reserve_stdout, show_changes
from rivet_dagster.cli.difference_text import difference_markdown, difference_text
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.difference.rows import EnvironmentDifference, Samples, TableDifference
from rivet_dagster.execution.difference.tables import environment_difference
from rivet_dagster.execution.environments import require_environment
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.project.environment_name import environment_name


def show_difference(
    root: Path, profile: str | None, joints: Sequence[str], environment: str | None, format: str
) -> int:
    """Print the difference of an environment from the base that it was made from. Raises RVT-110, RVT-306, RVT-415."""
    name = environment_name(environment, os.environ)
    if name is None:
        raise RivetError("RVT-110", "diff needs an environment: --environment NAME, or RIVET_ENVIRONMENT")
    root = root.resolve()
    assembly = compile_for_command(root, profile).raise_errors()
    _check_names(joints, assembly)
    base = Runtime(assembly, root)
    require_environment(base, name)
    with reserve_stdout():
        difference = environment_difference(Runtime(assembly, root, environment=name), base, name, joints)
    if format == "json":
        print(json.dumps(difference_json(difference), indent=2, ensure_ascii=False))
    elif format == "markdown":
        print(difference_markdown(difference))
    else:
        show_changes(difference_text(difference))
    built = {table.joint for table in difference.tables}
    for joint in joints:
        if joint not in built:
            print(f"{joint}: not built in the environment '{name}'", file=sys.stderr)
    return 0


def _check_names(names: Sequence[str], assembly: CompiledAssembly) -> None:
    """Raise RVT-306 for a joint that is not known, or that is not stored."""
    stored = [joint.name for joint in assembly.joints if assembly.target(joint.name) is not None]
    known = {joint.name for joint in assembly.joints}
    for name in names:
        if name not in stored:
            why = f"'{name}' is not stored" if name in known else f"no joint is named '{name}'"
            raise RivetError("RVT-306", f"{why}{nearest(name, stored)}", remediation="Name a joint that is stored.")


def difference_json(difference: EnvironmentDifference) -> dict[str, Any]:
    """Return the difference as ``diff --format json`` prints it.

    >>> from rivet_dagster.execution.difference.rows import RowDifference
    >>> rows = RowDifference(added=2, changed=1, key=("id",), columns={"net": 1})
    >>> table = TableDifference("orders", "own", (), rows, (), rows_before=5, rows_after=7)
    >>> difference_json(EnvironmentDifference("try", (table,)))["tables"][0]["rows"]
    {'added': 2, 'removed': 0, 'changed': 1}
    """
    return {"environment": difference.environment, "tables": [table_json(table) for table in difference.tables]}


def table_json(table: TableDifference) -> dict[str, Any]:
    """Return the difference of one table as ``diff --format json`` prints it."""
    rows = table.rows
    return {
        "joint": table.joint,
        "changed": table.changed,
        "schema": [asdict(change) for change in table.schema],
        "rows": {"added": rows.added, "removed": rows.removed, "changed": rows.changed},
        "columns": dict(rows.columns),
        "samples": _samples(rows.samples),
        "checks": [asdict(change) for change in table.checks],
    }


def _samples(samples: Samples) -> dict[str, Any]:
    return {
        "added": [dict(row) for row in samples.added],
        "removed": [dict(row) for row in samples.removed],
        "changed": [{"old": dict(row.old), "new": dict(row.new)} for row in samples.changed],
    }
