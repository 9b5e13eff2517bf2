"""Processes that are measured as a whole, with the JVM that they start."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux


def adopt_orphans() -> None:
    """Let a JVM that outlives its Python become a child of this process, which then waits for it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1)


def wait_for_group(group: int) -> None:
    """Wait for the adopted processes of a group, so that nobody runs beside the end of another."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def cpu_of_children() -> float:
    """The processor seconds of all processes that this one has waited for, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
