"""The helper of one compilation, as ``compile_directory`` uses it.

The helper's process, as the one sees it that starts it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.helper.analysis import Share, analyze, plain_share, share_of
from rivet_dagster.compiler.helper.messages import Messages, Notes, Numbers, Partner, portions, taken
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Introspection
from rivet_dagster.project.cache_file import part, values_in
from rivet_dagster.project.known_files import Draft, KnownDrafts
from rivet_dagster.project.load import read_drafts

LEAST_FILES = 3_000
"""The number of joints' files from which a helper saves more time than its start takes."""


@contextmanager
def helper(root: Path, cache: CompileCache) -> Iterator[Helper]:
    """Offer a second process while the block runs. It is started for a large project without any cache."""
    with ExitStack() as stack:
        yield Helper(root, cache, stack)


class Helper(Partner):
    """A second process that puts values into ``cache``, where there is a second processor; it ends with ``stack``."""

    def __init__(self, root: Path, cache: CompileCache, stack: ExitStack) -> None:
        self._root = root
        self._cache = cache
        self._stack = stack
        self._process: Process | None = None
        self._parts: list[bytes] = []
        self._missing: set[int] = set()
        self._shared: tuple[Share, Iterator[int]] | None = None

    def parts(self) -> list[bytes]:
        """Return the parts of a cache file that hold all values; none where no process was started."""
        if self._process is not None:
            self._parts.append(part(self._cache.flush()))
        return self._parts

    def read(self, paths: Sequence[str], known: KnownDrafts, profile: Profile) -> list[Draft]:
        """Return the drafts of the files, in order."""
        if not self._cache.known and len(paths) >= LEAST_FILES and _can_start():
            with suppress(OSError):  # no room for files or processes
                self._process = Process(self._stack)
        if self._process is None:
            return read_drafts(paths, known)
        parts = portions(paths)
        order = {"root": os.path.abspath(self._root), "files": paths, "row_values": profile.row_values}
        drafts: dict[int, list[Draft]] = {}
        for number in self._numbers(self._process, order, self._process.of_files, len(parts)):
            drafts[number] = read_drafts(parts[number], known)
            self.send({"portion": number})
            drafts |= self._received(parts, known)
        while self._missing and self.wait():
            drafts |= self._received(parts, known)
        return [draft for number, part in enumerate(parts) for draft in drafts.get(number) or read_drafts(part, known)]

    def _received(self, parts: Sequence[Sequence[str]], known: KnownDrafts) -> dict[int, list[Draft]]:
        """Return the drafts of portions that the helper has read since the last call."""
        drafts: dict[int, list[Draft]] = {}
        for notes in self.receive():
            if "files" not in notes:
                continue
            known.read.update(notes["files"])
            drafts[notes["portion"]] = read_drafts(parts[notes["portion"]], known)
        return drafts

    def order(self, project: Project, introspection: Introspection) -> None:
        """Let the helper, if there is one, begin to put the values of checks, queries and columns into the cache."""
        if self._process is not None and not self._process.is_lost:
            share = share_of(project, introspection)
            count = len(portions(share.joints))
            self._shared = share, self._numbers(self._process, plain_share(share), self._process.of_joints, count)

    def analyze(self) -> None:
        """Put the other values into the cache that are shared with the helper, and wait for its own."""
        if self._shared is None:
            return
        share, numbers = self._shared
        analyze(share, self._cache, numbers, self)
        while self._missing and self.wait():
            for _ in self.receive():
                pass

    def _numbers(self, process: Process, order: Notes, numbers: Numbers, count: int) -> Iterator[int]:
        """Give the helper an order; yield the numbers of the portions that are left to this process."""
        self._missing = {*range(count)}
        process.send(order)
        numbers.fill(count)
        return taken(numbers.reader)

    def send(self, notes: Notes) -> None:
        """Note what is done, and tell the columns of joints."""
        self._missing.discard(notes.get("portion", -1))
        self._parts.append(part(self._cache.flush()))
        if self._process is not None and notes.get("columns"):
            self._process.send(notes)

    def receive(self) -> Iterator[Notes]:
        """Yield what the helper has told, with its values in the cache."""
        for notes, values in () if self._process is None else self._process.receive():
            self._missing.discard(notes.get("portion", -1))
            self._cache.receive(values_in(values))
            self._parts.append(values)
            yield notes

    def wait(self) -> bool:
        """Wait a moment; return whether the helper may still tell something."""
        return self._process is not None and self._process.wait()


def _can_start() -> bool:
    """Return whether processes can be started as the helper's is, and there are two processors for this one."""
    return os.name == "posix" and bool(sys.executable) and _processors() >= 2


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
