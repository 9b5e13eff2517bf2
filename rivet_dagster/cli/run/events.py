"""The events of a Dagster run, shown on a screen as they come."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import RLock

import dagster as dg

from rivet_dagster.cli.run.report import was_canceled
from rivet_dagster.cli.screen.contract import (
    AGAIN,
    CANCELED,
    DONE,
    FAILED,
    NOT_STARTED,
    RUNNING,
    WAITS,
    Screen,
    Verdict,
)
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.metadata.materialization_metadata import ROW_COUNT
from rivet_dagster.definitions.runs.fail_fast import was_not_started
from rivet_dagster.definitions.runs.identity import step_name
from rivet_dagster.model.joint import SOURCE

_STATES = {
    dg.DagsterEventType.STEP_START: RUNNING,
    dg.DagsterEventType.STEP_UP_FOR_RETRY: WAITS,
    dg.DagsterEventType.STEP_RESTARTED: AGAIN,
    dg.DagsterEventType.STEP_SUCCESS: DONE,
    dg.DagsterEventType.STEP_FAILURE: FAILED,
}


class RunFollower:
    """Shows the events of a run of these ``groups`` of a plan; several threads may send some.

    A wave is announced when the first of its groups starts.
    """

    def __init__(self, screen: Screen, assembly: CompiledAssembly, groups: Iterable[str]) -> None:
        chosen = set(groups)
        computed = [name for name in chosen if assembly.joint(name).type != SOURCE]
        self._screen = screen
        self._assembly = assembly
        self._names = {step_name(assembly, name): name for name in computed}
        self._waves = {name: number for number, wave in enumerate(assembly.waves, 1) for name in wave}
        self._groups = {
            number: [name for name in wave if name in computed] for number, wave in enumerate(assembly.waves, 1)
        }
        self._announced: set[int] = set()
        self._rows: dict[str, int] = {}
        self._lock = RLock()
        screen.begin(computed)

    def follow(self, event: dg.DagsterEvent) -> None:
        """Show an event of a step; events of other kinds are not shown."""
        if event.step_key is None:
            return
        with self._lock:
            name = self._names.get(event.step_key, event.step_key)
            if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
                self._count(event)
            elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                self._judge(event)
            elif event.event_type in _STATES:
                if event.event_type == dg.DagsterEventType.STEP_START:
                    self._announce(name)
                state = _STATES[event.event_type]
                if state == FAILED:
                    state = NOT_STARTED if was_not_started(event) else CANCELED if was_canceled(event) else FAILED
                self._screen.state(name, state, self._rows.get(name) if state == DONE else None)

    def _announce(self, name: str) -> None:
        number = self._waves.get(name)
        if number is not None and number not in self._announced:
            self._announced.add(number)
            self._screen.wave(number, self._groups[number])

    def _count(self, event: dg.DagsterEvent) -> None:
        rows = event.materialization.metadata.get(ROW_COUNT)
        if event.asset_key is not None and rows is not None:
            self._rows[event.asset_key.path[-1]] = int(str(rows.value))

    def _judge(self, event: dg.DagsterEvent) -> None:
        evaluation = event.asset_check_evaluation_data
        joint = self._assembly.joint(evaluation.asset_key.path[-1])
        declared = next((check for check in joint.checks if check.name == evaluation.check_name), None)
        if declared is None:
            return  # a check of the last step, which tells whether a table was published
        metadata = {key: value.value for key, value in evaluation.metadata.items()}
        violations, error = metadata.get("rivet/violations"), metadata.get("rivet/error")
        count = None if violations is None else int(str(violations))
        why = None if error is None else str(error)
        self._screen.verdict(Verdict(joint.name, declared.name, evaluation.passed, declared.blocking, count, why))


def following_logger(follower: RunFollower) -> dg.LoggerDefinition:
    """Return a logger that passes on Dagster's events, in place of Dagster's own log on the console."""

    @dg.logger
    def progress(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("rivet_dagster.progress", logging.DEBUG)
        logger.addHandler(_Handler(follower))
        return logger

    return progress


class _Handler(logging.Handler):
    def __init__(self, follower: RunFollower) -> None:
        super().__init__()
        self._follower = follower

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        if event is not None:
            self._follower.follow(event)
