"""Lines that this process and its children write to a terminal by themselves."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable

_STDOUT, _STDERR = 1, 2
_DRAINED = 0.5
"""The most seconds to wait for the last lines."""


class OwnOutput:
    """Passes each line that is written to stdout and stderr to ``show``, until ``close``.

    Spark's JVM writes to the descriptors that it inherits: in the midst of a bar, if these were the terminal's.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._saved = {descriptor: os.dup(descriptor) for descriptor in (_STDOUT, _STDERR)}
        self._read, write = os.pipe()
        for descriptor in self._saved:
            os.dup2(write, descriptor)
        os.close(write)
        # A daemon thread: the JVM keeps the pipe open for as long as it runs.
        threading.Thread(target=self._pass_on, name="rivet-own-output", daemon=True).start()

    def close(self) -> None:
        """Give the process its outputs back; what a child writes later is still shown."""
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, saved in self._saved.items():
            os.dup2(saved, descriptor)
            os.close(saved)
        self._saved.clear()
        deadline = time.monotonic() + _DRAINED
        while select.select([self._read], [], [], 0)[0] and time.monotonic() < deadline:
            time.sleep(0.01)

    def _pass_on(self) -> None:
        with os.fdopen(os.dup(self._read), encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._show(line.rstrip("\n"))
