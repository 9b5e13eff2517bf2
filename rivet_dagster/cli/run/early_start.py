"""The start of Spark while Dagster is being imported and definitions are being made.

A JVM takes seconds to start, for most of which this process has other work to do.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Thread

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Engine
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime

THREAD = "rivet-early-start"


def start_early(assembly: CompiledAssembly, root: Path) -> None:
    """Begin to start the engine of a plan in a thread, if it is the only one and runs on this machine.

    The sessions of the run find it running, or wait until it does.
    """
    engines = assembly.engines
    if not (assembly.fused_groups and len(engines) == 1 and engine_class(engines[0].type).on_this_machine(engines[0])):
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
