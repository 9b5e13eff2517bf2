"""``rivet-dagster run``: a Dagster run in this process, whose Spark starts while Dagster is imported.

A JVM takes seconds to start, for most of which this process has other work to do.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from threading import Thread

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import stdout_kept_for_the_report
from rivet_dagster.cli.run.selection import RunRequest
from rivet_dagster.cli.screen import screen_on
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Engine
from rivet_dagster.engines.registry import declared_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.project.environment_name import environment_name


def run_command(root: Path, profile: str | None, request: RunRequest, as_json: bool) -> int:
    """Materialize the selected joints and print the report. Return its exit code."""
    root = root.resolve()
    environment = environment_name(request.environment, os.environ)
    assembly = compile_for_command(root, profile, recall=True)
    with stdout_kept_for_the_report(), closing(screen_on(sys.stderr)) as screen:
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
    with _told_by_the_run():
        engine = Runtime(assembly, root).engine(engines[0].name)
        # Here, since two threads that import at once take turns, and the longer import would hold up the start.
        engine.import_packages()
        Thread(target=_start, args=(engine,), name=THREAD, daemon=True).start()


def _start(engine: Engine) -> None:
    with _told_by_the_run():
        engine.session().close()


def _told_by_the_run() -> AbstractContextManager[None]:
    """Drop an error: the first session of the run fails for the same reason, and the run reports it."""
    return suppress(RivetError)
