"""Heartbeats of what runs have staged: a process that runs steps of a run sends them until the run has ended.

Where the steps of a run are processes, no process of ours may run between two of them: heartbeats are then sent ahead,
and one process in a while sends those of all that the run has staged.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set

import dagster as dg

from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.versions.heartbeat import SECONDS
from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.runtime import Runtime

AHEAD_SECONDS = 3600.0
"""How much longer than a heartbeat the rows of a run stay that is not in one process."""

ROUND_SECONDS = AHEAD_SECONDS / 4
"""How often one of the processes of such a run sends heartbeats of all that it has staged."""

ROUND = "rivet/heartbeats"
"""The tag of such a run that says when that was last begun, in seconds since the epoch."""

_ONE_PROCESS = frozenset({"threads", "in_process", "execute_in_process_executor"})
"""The names of executors that run all steps of a run in one process, which lives as long as the run."""

_PATIENCE = 12
"""How often the instance may fail to tell whether a run has ended until its heartbeats end."""

_THREADS = 8
"""How many heartbeats are sent at once."""

_PAUSE = 1.0
"""Seconds between two rounds of heartbeats that take longer than there should be between two heartbeats."""

_LOG = logging.getLogger(__name__)

_HEARTBEATS: dict[str, _Heartbeats] = {}
_LOCK = threading.Lock()


def keep_staged(context: dg.OpExecutionContext, runtime: Runtime, tables: Iterable[StagedResult]) -> None:
    """Send heartbeats of ``tables``, which a run has staged, until the run has ended or this process ends."""
    with _LOCK:
        _heartbeats(context).add(runtime, tables)


def keep_earlier(
    context: dg.OpExecutionContext, runtime: Runtime, earlier: Callable[[], Iterable[StagedResult]]
) -> None:
    """Send heartbeats of what earlier steps of the run have staged, which ``earlier`` looks up, where nobody else does.

    In a run whose steps are processes, a step that looks up and renews what all before it have staged would take longer
    the more there are: one process does it every quarter of an hour.
    """
    with _LOCK:
        _heartbeats(context).look_after(runtime, earlier)


def _heartbeats(context: dg.OpExecutionContext) -> _Heartbeats:
    heartbeats = _HEARTBEATS.get(context.run_id)
    if heartbeats is None or heartbeats.has_ended:
        heartbeats = _HEARTBEATS[context.run_id] = _Heartbeats(context)
    return heartbeats


class _Heartbeats:
    """The heartbeats of the tables that one run has staged, in a thread of their own."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._run_id = context.run_id
        self._instance = context.instance
        self.runs_all_steps = context.job_def.executor_def.name in _ONE_PROCESS
        self._ahead = 0.0 if self.runs_all_steps else AHEAD_SECONDS
        self._tables: dict[StagedResult, Runtime] = {}
        self._seconds: dict[StagedResult, float] = {}
        self._renew_earlier: Callable[[], None] | None = None
        self._looked_at = 0.0
        self._wakes = threading.Event()
        self._changes = threading.Lock()
        self._unanswered = 0
        self.has_ended = False
        threading.Thread(target=self._work, name=f"rivet-staged-{self._run_id}", daemon=True).start()

    def add(self, runtime: Runtime, tables: Iterable[StagedResult]) -> None:
        """Send heartbeats of these tables, too, from now on."""
        new = {table: runtime for table in tables if table not in self._tables}
        with self._changes:
            self._tables = {**self._tables, **new}
        self._beat(new)

    def look_after(self, runtime: Runtime, earlier: Callable[[], Iterable[StagedResult]]) -> None:
        """Send heartbeats of what ``earlier`` finds: of all from now on, or where steps are processes in a while."""
        if not self.runs_all_steps:
            self._renew_earlier = lambda: self._beat(dict.fromkeys(earlier(), runtime))
            self._take_turn()
        elif self._renew_earlier is None:
            self._renew_earlier = lambda: None
            self.add(runtime, earlier())

    def _take_turn(self) -> None:
        """Renew what earlier steps have staged, unless another process of the run has done so not long ago."""
        self._looked_at = time.monotonic()
        run = self._instance.get_run_by_id(self._run_id)
        if run is None or self._renew_earlier is None or time.time() - float(run.tags.get(ROUND, 0)) < ROUND_SECONDS:
            return
        self._instance.add_run_tags(self._run_id, {ROUND: str(int(time.time()))})
        self._renew_earlier()

    def _work(self) -> None:
        took = 0.0
        while not self._wakes.wait(max(SECONDS - took, _PAUSE)):
            if self._is_over():
                break
            begun = time.monotonic()
            self._beat(self._tables)
            took = time.monotonic() - begun
            if not self.runs_all_steps and time.monotonic() - self._looked_at > ROUND_SECONDS / 2:
                try:
                    self._take_turn()
                except Exception as error:  # of Dagster's database
                    _LOG.warning("cannot look up what the run %s has staged: %r", self._run_id, error)
        with _LOCK:
            self.has_ended = True
            if _HEARTBEATS.get(self._run_id) is self:
                del _HEARTBEATS[self._run_id]

    def _is_over(self) -> bool:
        try:
            run = self._instance.get_run_by_id(self._run_id)
        except Exception as error:  # its database may answer the next time
            self._unanswered += 1
            if self._unanswered == 1:
                _LOG.warning("cannot look up whether the run %s has ended: %r", self._run_id, error)
            return self._unanswered > _PATIENCE
        self._unanswered = 0
        return run is None or run.is_finished

    def _beat(self, tables: Mapping[StagedResult, Runtime]) -> None:
        """Send heartbeats of tables, some at once: each waits for the steps of this process, and for the store."""
        tables = self._beat_together(tables)
        waiting = deque(tables.items())
        others = [
            threading.Thread(target=self._beat_each, args=(waiting,), name=f"rivet-staged-{self._run_id}", daemon=True)
            for _ in range(min(_THREADS, len(tables)) - 1)
        ]
        for thread in others:
            thread.start()
        self._beat_each(waiting)
        for thread in others:
            thread.join()

    def _beat_together(self, tables: Mapping[StagedResult, Runtime]) -> Mapping[StagedResult, Runtime]:
        """Send the heartbeats that a catalog renews by one request; return the tables of the others."""
        of_catalogs: dict[str, dict[StagedResult, Runtime]] = {}
        for table, runtime in tables.items():
            of_catalogs.setdefault(table.catalog, {})[table] = runtime
        others: dict[StagedResult, Runtime] = {}
        for name, of_catalog in of_catalogs.items():
            begun = time.monotonic()
            try:
                catalog = next(iter(of_catalog.values())).catalog(name)
                there = (
                    catalog.keep_all_alive({table.version for table in of_catalog}, self._seconds_ahead())
                    if isinstance(catalog, StagesForRuns)
                    else None
                )
            except Exception as error:  # of storage, as below
                _LOG.warning("the heartbeats of %d tables of %s have failed: %r", len(of_catalog), name, error)
                continue
            if there is None:
                others |= of_catalog
                continue
            for table in of_catalog:
                self._seconds[table] = (time.monotonic() - begun) / len(of_catalog)
            self._forget({table for table in of_catalog if table.version not in there})
        return others

    def _beat_each(self, waiting: deque[tuple[StagedResult, Runtime]]) -> None:
        """Send heartbeats until none is left to be sent."""
        while True:
            try:
                table, runtime = waiting.popleft()
            except IndexError:
                return
            begun = time.monotonic()
            try:
                is_there = _keep_alive(table, runtime, self._seconds_ahead())
            except Exception as error:  # of storage, or of a client of it
                # It may answer before the version counts as dead; if not, the last step of the run reports that.
                _LOG.warning("a heartbeat of %s has failed: %r", table.table, error)
                continue
            finally:
                self._seconds[table] = time.monotonic() - begun
            if not is_there:
                self._forget({table})

    def _forget(self, tables: Set[StagedResult]) -> None:
        """Send no more heartbeats of tables that do not exist any more."""
        if tables:
            with self._changes:
                self._tables = {known: of for known, of in self._tables.items() if known not in tables}

    def _seconds_ahead(self) -> float:
        """Return for how long a heartbeat lasts beyond the usual: until the next round has come to its table.

        A round over many tables, or over a slow catalog, takes longer than the time after which a version counts as
        dead.
        """
        known = list(self._seconds.values())
        round_ = len(self._tables) * statistics.fmean(known) / _THREADS if known else 0.0
        return max(self._ahead, 2 * round_ if round_ > SECONDS else 0.0)


def _keep_alive(table: StagedResult, runtime: Runtime, ahead: float) -> bool:
    """Send a heartbeat of a staged table; return False if it does not exist any more."""
    catalog = runtime.catalog(table.catalog)
    return not isinstance(catalog, StagesForRuns) or catalog.keep_alive(table.table, table.version, ahead)
