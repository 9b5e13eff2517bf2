"""``rivet-dagster run``: a Dagster run in this process, whose Spark starts while Dagster is imported.

A JVM takes seconds to start, for most of which this process has other work to do. With ``--dry-run`` the groups that
would run are printed, their queries and their writes; nothing is read.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import reserve_stdout
from rivet_dagster.cli.run.selection import RunRequest, joints_of_groups, selected_partitions, to_materialize
from rivet_dagster.cli.screen import screen_on
from rivet_dagster.collector import without_collector
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint, FusedGroup
from rivet_dagster.engines.contract import Engine
from rivet_dagster.engines.registry import declared_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.changed import changed_groups
from rivet_dagster.execution.environments import refuse_without_environments
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.write_plan import refresh_plan
from rivet_dagster.model.write_strategy import mode_of
from rivet_dagster.project.environment_name import environment_name


def run_command(root: Path, profile: str | None, request: RunRequest, as_json: bool) -> int:
    """Materialize the selected joints and print the report. Return its exit code."""
    root = root.resolve()
    environment = environment_name(request.environment, os.environ)
    assembly = compile_for_command(root, profile, recall=True)
    with reserve_stdout(), closing(screen_on(sys.stderr)) as screen:
        with without_collector():  # packages that are imported stay
            if not request.changed:  # else there may be nothing to run
                start_early(assembly, root)
            from rivet_dagster.cli.run.dagster_run import materialize

        report = materialize(request, assembly, root, screen, environment)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        from rivet_dagster.cli.run.text import show_report

        show_report(report, assembly, root, environment)
    return report.exit_code


THREAD = "rivet-early-start"


def start_early(assembly: CompiledAssembly, root: Path) -> None:
    """Begin to start the engine of a plan in a thread, if it is the only one and runs on this machine.

    The sessions of the run find it running, or wait until it does.
    """
    engines = assembly.engines
    if not (assembly.fused_groups and len(engines) == 1 and declared_class(engines[0]).on_this_machine(engines[0])):
        return
    with _leave_to_run():
        engine = Runtime(assembly, root).engine(engines[0].name)
        # Here, since two threads that import at once take turns, and the longer import would hold up the start.
        engine.import_packages()
        Thread(target=_start, args=(engine,), name=THREAD, daemon=True).start()


def _start(engine: Engine) -> None:
    with _leave_to_run():
        engine.session().close()


def _leave_to_run() -> AbstractContextManager[None]:
    """Drop an error: the first session of the run fails for the same reason, and the run reports it."""
    return suppress(RivetError)


def show_dry_run(root: Path, profile: str | None, request: RunRequest, as_json: bool) -> int:
    """Print the groups that a request would run, in order. Return 0. Raises what the run would refuse before it starts.

    Dagster is imported only for a selection in its syntax and for partitions, and no engine starts.
    """
    root = root.resolve()
    environment = environment_name(request.environment, os.environ)
    assembly = compile_for_command(root, profile, recall=True).raise_errors()
    with reserve_stdout():
        joints = _joints(request, assembly, root)
        runtime = Runtime(assembly, root, environment=environment)
        refuse_without_environments(runtime, sorted({joint.group for joint in joints}))
        if request.full_refresh:
            refuse_lossy_refresh(runtime, {joint.group for joint in joints})
    names = {joint.name for joint in joints}
    waves = [[group for group in wave if set(assembly.group(group).joints) & names] for wave in assembly.waves]
    groups = [assembly.group(name) for wave in waves for name in wave if assembly.group(name).target is not None]
    if as_json:
        planned = [_planned(group, request.full_refresh) for group in groups]
        print(json.dumps({"success": True, "groups": planned}, indent=2, ensure_ascii=False))
        return 0
    where = f", in the environment {environment}" if environment is not None else ""
    print(
        "\n\n".join(_text(assembly, group, where, request.full_refresh) for group in groups) or "-- nothing would run"
    )
    return 0


def _joints(request: RunRequest, assembly: CompiledAssembly, root: Path) -> list[CompiledJoint]:
    if request.select is None:
        joints = to_materialize(joints_of_groups(request.joints, assembly), assembly)
    else:
        from rivet_dagster.cli.run.dagster_run import joints_in_dagster

        joints = joints_in_dagster(request, assembly, root)
    if request.changed:
        changed = changed_groups(Runtime(assembly, root))
        joints = [joint for joint in joints if joint.group in changed]
    has_partitions = any(joint.partitions is not None for joint in joints)
    if joints and (has_partitions or request.partition is not None or request.partition_range is not None):
        selected_partitions(request.partition, request.partition_range, joints)
    return joints


def _planned(group: FusedGroup, full_refresh: bool) -> dict[str, Any]:
    assert group.target is not None, "only sources have none"
    plan = refresh_plan(group.target.write) if full_refresh else group.target.write
    table, mode = f"{group.target.catalog}.{group.target.table}", mode_of(plan)
    planned = {
        "name": group.name,
        "joints": list(group.joints),
        "sql": group.sql,
        "write": {"table": table, "mode": mode, **({"full_refresh": True} if full_refresh else {})},
    }
    later = group.sql_incremental if not full_refresh else None
    return planned | ({"sql_incremental": later} if later is not None else {})


def _text(assembly: CompiledAssembly, group: FusedGroup, where: str, full_refresh: bool) -> str:
    planned = _planned(group, full_refresh)
    mode = planned["write"]["mode"] + (", a full refresh" if full_refresh else "")
    lines = [
        f"-- {group.name}: {' -> '.join(group.joints)}",
        f"-- writes {planned['write']['table']} ({mode}){where}",
    ]
    if group.sql is None:
        return "\n".join([*lines, f"-- calls {assembly.joint(group.exit).name}, a Python function"])
    if "sql_incremental" in planned:
        lines += ["-- once the table is published:", planned["sql_incremental"], "-- in a first run:"]
    return "\n".join([*lines, group.sql])
