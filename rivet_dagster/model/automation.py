"""The schedules, automation conditions and freshness policies of the ``dagster:`` block of rivet.yaml.

Each has an ``origin``, because some errors in it are found only when the project is compiled.

The sensors declared in the ``dagster:`` block of rivet.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rivet_dagster.model.text_lines import Origin

RUNNING, STOPPED = "RUNNING", "STOPPED"

EAGER, ON_CRON, ON_MISSING, ON_CODE_CHANGE = "eager", "on_cron", "on_missing", "on_code_change"
CONDITIONS = (EAGER, ON_CRON, ON_MISSING, ON_CODE_CHANGE)


@dataclass(frozen=True, kw_only=True)
class SweepSchedule:
    """Sweep on a cron schedule."""

    name: str
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class UpkeepSchedule:
    """Do the upkeep of the project's tables in ``catalogs``, without any in all, on a cron schedule."""

    name: str
    cron_schedule: str
    catalogs: tuple[str, ...] = ()
    execution_timezone: str | None = None
    default_status: str = STOPPED
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TargetSchedule:
    """Materialize the joints that the selection ``target`` names, on a cron schedule.

    If they have time partitions, a tick materializes the last complete one, or the ``partition_offset``-th before it.
    """

    name: str
    target: str
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    partition_offset: int = 0
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class ObservationSchedule:
    """Observe ``sources`` on a cron schedule."""

    name: str
    sources: tuple[str, ...]
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class AutomationRule:
    """The condition, one of ``CONDITIONS``, under which Dagster materializes each joint of ``target``.

    Only on_cron has ``cron_schedule`` and ``timezone``.
    """

    target: str
    condition: str
    cron_schedule: str | None = None
    timezone: str | None = None
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TimeWindow:
    """Fail where the newest data is older than ``fail_window`` seconds, warn from ``warn_window`` seconds on."""

    fail_window: float
    warn_window: float | None = None


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """Fail unless data arrived in the ``lower_bound_delta`` seconds before the last tick of ``deadline_cron``."""

    deadline_cron: str
    lower_bound_delta: float
    timezone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class FreshnessRule:
    """The freshness policy of the assets of ``target``: either ``time_window`` or ``cron``."""

    target: str
    time_window: TimeWindow | None = None
    cron: Deadline | None = None
    origin: Origin = Origin()


SWEEP_ENDS = ("failure", "canceled")
"""The run outcomes after which a sweep sensor sweeps: it becomes two sensors, with these suffixes in their names."""


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """The common attributes of sensors; ``default_status`` is RUNNING or STOPPED."""

    name: str
    default_status: str = STOPPED
    minimum_interval_seconds: int | None = None
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TargetSensor(Sensor):
    """The common attributes of sensors that materialize a ``target``."""

    target: str


@dataclass(frozen=True, kw_only=True)
class FilesSensor(TargetSensor):
    """Materialize ``target`` when files of ``source`` are new or have changed."""

    source: str


@dataclass(frozen=True, kw_only=True)
class SourceChangedSensor(TargetSensor):
    """Materialize ``target`` when the data version of one of ``sources`` has changed."""

    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AfterSuccessSensor(TargetSensor):
    """Materialize ``target`` when all joints that ``monitored`` selects have been materialized."""

    monitored: str


@dataclass(frozen=True, kw_only=True)
class SweepSensor(Sensor):
    """Sweep after each run of the project that failed or was canceled."""


@dataclass(frozen=True)
class Sensors:
    """All sensors, by kind."""

    files: tuple[FilesSensor, ...] = ()
    source_changed: tuple[SourceChangedSensor, ...] = ()
    after_success: tuple[AfterSuccessSensor, ...] = ()
    sweep: tuple[SweepSensor, ...] = ()

    def __iter__(self) -> Iterator[Sensor]:
        yield from (*self.files, *self.source_changed, *self.after_success, *self.sweep)
