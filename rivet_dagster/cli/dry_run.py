"""``rivet-dagster run --dry-run``: the groups that would run, their queries and their writes; nothing is read."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)


def show_dry_run(assembly: CompiledAssembly, names: Collection[str], as_json: bool) -> int:
    """Print the groups of the joints ``names`` in the order in which they would run. Return 0."""
    waves = [[group for group in wave if set(assembly.group(group).joints) & set(names)] for wave in assembly.waves]
    groups = [assembly.group(name) for wave in waves for name in wave if assembly.group(name).target is not None]
    if as_json:
        planned = [_planned(assembly, group) for group in groups]
        print(json.dumps({"success": True, "groups": planned}, indent=2, ensure_ascii=False))
        return 0
    print("\n\n".join(_text(assembly, group) for group in groups) or "-- nothing would run")
    return 0


def strategy_of(plan: WritePlan) -> str:
    """Return the mode of the write strategy that a write carries out.

    >>> strategy_of(Upsert(keys=("id",)))
    'merge'
    """
    match plan:
        case ReplaceAll(keeps_table=keeps_table):
            return "truncate_insert" if keeps_table else "replace"
        case Append():
            return "append"
        case AppendNewer():
            return "incremental_append"
        case Upsert():
            return "merge"
        case ReplacePartitions():
            return "snapshot"
        case DeleteInsert():
            return "delete_insert"
        case History():
            return "scd2"


def _planned(assembly: CompiledAssembly, group: FusedGroup) -> dict[str, Any]:
    assert group.target is not None, "only sources have none"
    table = f"{group.target.catalog}.{group.target.table}"
    planned = {
        "name": group.name,
        "joints": list(group.joints),
        "sql": group.sql,
        "write": {"table": table, "mode": strategy_of(group.target.write)},
    }
    return planned | ({"sql_incremental": group.sql_incremental} if group.sql_incremental is not None else {})


def _text(assembly: CompiledAssembly, group: FusedGroup) -> str:
    planned = _planned(assembly, group)
    lines = [
        f"-- {group.name}: {' -> '.join(group.joints)}",
        f"-- writes {planned['write']['table']} ({planned['write']['mode']})",
    ]
    if group.sql is None:
        return "\n".join([*lines, f"-- calls {assembly.joint(group.exit).name}, a Python function"])
    if group.sql_incremental is not None:
        lines += ["-- once the table is published:", group.sql_incremental, "-- in a first run:"]
    return "\n".join([*lines, group.sql])
