"""The helper's own process."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.helper.analysis import analyze, read_share
from rivet_dagster.compiler.helper.messages import Messages, Notes, Partner, portions, taken
from rivet_dagster.compiler.quality import compile_checks
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.project.cache_file import part
from rivet_dagster.project.known_files import Draft, KnownDrafts
from rivet_dagster.project.load import read_drafts

_PAUSE = 0.001


class _Caller(Partner):
    """The process that has started this one."""

    def __init__(self, pid: int, orders: Messages, answers: Messages, cache: CompileCache) -> None:
        self._pid = pid
        self._orders = orders
        self._answers = answers
        self._cache = cache

    def send(self, notes: Notes) -> None:
        """Tell it something, with the new values of the cache."""
        self._end_if_alone()
        self._answers.send(notes, part(self._cache.flush()))

    def receive(self) -> Iterator[Notes]:
        for notes, _ in self._orders.receive():
            yield notes

    def wait(self) -> bool:
        self._end_if_alone()
        time.sleep(_PAUSE)
        return True

    def _end_if_alone(self) -> None:
        if os.getppid() != self._pid:
            sys.exit()


def main() -> None:
    """Do the portions of work that this process takes."""
    gc.disable()
    pid, orders, answers, files, joints = map(int, sys.argv[1:])
    cache = CompileCache()
    caller = _Caller(pid, Messages(orders), Messages(answers), cache)
    caller.send({})  # the empty part tells this process' version
    order = _order(caller)
    drafts = _read(portions(order["files"]), KnownDrafts(Path(order["root"]), cache), taken(files), caller)
    checked = _check(drafts, Profile("", (), (), None, row_values=order["row_values"]), cache, caller)
    analyze(read_share(_order(caller, checked)), cache, taken(joints), caller)


def _order(caller: Partner, meanwhile: Iterable[None] = ()) -> Notes:
    """Return the next order; do steps of other work as long as there is none."""
    steps = iter(meanwhile)
    while True:
        for order in caller.receive():
            return order
        if next(steps, caller) is caller:
            caller.wait()


def _read(
    parts: Sequence[Sequence[str]], known: KnownDrafts, numbers: Iterable[int], caller: Partner
) -> list[list[Draft]]:
    drafts: list[list[Draft]] = []
    for number in numbers:
        drafts.append(read_drafts(parts[number], known))
        files = {path: known.read[path] for path in parts[number] if path in known.read}
        caller.send({"portion": number, "files": files})
    return drafts


def _check(parts: Iterable[Sequence[Draft]], profile: Profile, cache: CompileCache, caller: Partner) -> Iterator[None]:
    """Compile the checks in the drafts, part by part."""
    for drafts in parts:
        joints = [joint for draft in drafts if draft.checks and (joint := draft.joint()[0]) is not None]
        compile_checks(Project(profile, tuple(joints)), Diagnostics(), cache)
        caller.send({})
        yield
