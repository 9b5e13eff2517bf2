"""The helper of one compilation, as ``compile_directory`` uses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.helper.analysis import analyze
from rivet_dagster.compiler.helper.messages import Notes
from rivet_dagster.compiler.helper.partner import Partner
from rivet_dagster.compiler.helper.portions import Numbers, portions, taken
from rivet_dagster.compiler.helper.process import Process
from rivet_dagster.compiler.helper.share import Share, plain_share, share_of
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
