"""The start of Spark while Dagster is being imported and definitions are being made.

A JVM takes seconds to start, for most of which this process has other work to do.
"""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime

THREAD = "rivet-early-start"


def start_early(assembly: CompiledAssembly, root: Path) -> None:
    """Begin to start the engine of a plan in a thread, if it is the only one and runs on this machine.

    The sessions of the run find it running, or wait until it does.
    """
    engines = assembly.engines
    if assembly.fused_groups and len(engines) == 1 and engine_class(engines[0].type).on_this_machine(engines[0]):
        Thread(target=_start, args=(assembly, root), name=THREAD, daemon=True).start()


def _start(assembly: CompiledAssembly, root: Path) -> None:
    (spec,) = assembly.engines
    try:
        Runtime(assembly, root).engine(spec.name).session().close()
    except RivetError:
        return  # the first session of the run fails for the same reason, and the run reports it
