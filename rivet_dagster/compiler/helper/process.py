"""The helper's process, as the one sees it that starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack

from rivet_dagster.compiler.helper.messages import Messages, Notes
from rivet_dagster.compiler.helper.portions import Numbers
from rivet_dagster.project.cache_file import part

_PATIENCE = 60.0
"""The seconds for which its next answer is awaited; the process may have been stopped."""

_PAUSE = 0.001
_COMMAND = "from rivet_dagster.compiler.helper.work import main; main()"


class Process:
    """A started helper with all that connects it to this process; it ends with ``stack``. Raises OSError."""

    def __init__(self, stack: ExitStack) -> None:
        with ExitStack() as files:
            descriptors = [files.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(2)]
            stack.push(files.pop_all())
        self._orders, self._answers = map(Messages, descriptors)
        self.of_files, self.of_joints = Numbers(), Numbers()
        for numbers in (self.of_files, self.of_joints):
            stack.callback(numbers.close)
        passed = [*descriptors, self.of_files.reader, self.of_joints.reader]
        # -P: nothing is imported from the working directory
        command = [sys.executable, "-P", "-c", _COMMAND, *map(str, (os.getpid(), *passed))]
        nothing = subprocess.DEVNULL
        self._popen = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=passed)
        stack.callback(self.stop)
        self.is_lost = False
        self._has_ended = False
        self._is_known = False
        self._heard = time.monotonic()

    def stop(self) -> None:
        """Kill the process; nothing more is received."""
        self.is_lost = True
        self._popen.kill()
        self._popen.wait()

    def send(self, notes: Notes) -> None:
        """Tell it something; where there is no room for that, it is stopped."""
        try:
            if not self.is_lost:
                self._orders.send(notes)
                self._heard = time.monotonic()  # it could not answer before
        except OSError:
            self.stop()

    def receive(self) -> Iterator[tuple[Notes, bytes]]:
        """Yield what it has answered since the last call; a process of another version is stopped."""
        try:
            for notes, values in () if self.is_lost else self._answers.receive():
                self._heard = time.monotonic()
                if self._is_known:
                    yield notes, values
                elif values == part({}):
                    self._is_known = True
                else:
                    return self.stop()
        except (ValueError, TypeError):
            self.stop()

    def wait(self) -> bool:
        """Wait a moment; return whether there may be another answer."""
        if self.is_lost:
            return False
        if self._has_ended or time.monotonic() > self._heard + _PATIENCE:
            self.stop()
            return False
        self._has_ended = self._popen.poll() is not None
        if not self._has_ended:
            time.sleep(_PAUSE)
        return True
