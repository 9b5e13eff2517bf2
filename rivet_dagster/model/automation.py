"""What the ``dagster:`` block of rivet.yaml asks Dagster to do by itself, but for the sensors.

Each knows its ``origin``: what is wrong with it may only show once the project is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.model.origin import Origin

RUNNING, STOPPED = "RUNNING", "STOPPED"

EAGER, ON_CRON, ON_MISSING, ON_CODE_CHANGE = "eager", "on_cron", "on_missing", "on_code_change"
CONDITIONS = (EAGER, ON_CRON, ON_MISSING, ON_CODE_CHANGE)


@dataclass(frozen=True, kw_only=True)
class SweepSchedule:
    """Sweep at certain times."""

    name: str
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TargetSchedule:
    """Make at certain times what the selection ``target`` names.

    Of a target with partitions of time that is the last whole one, or the ``partition_offset``-th before it.
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
    """Observe ``sources`` at certain times."""

    name: str
    sources: tuple[str, ...]
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class AutomationRule:
    """The condition, one of ``CONDITIONS``, upon which Dagster makes each joint of ``target``.

    Only on_cron has ``cron_schedule`` and ``timezone``.
    """

    target: str
    condition: str
    cron_schedule: str | None = None
    timezone: str | None = None
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TimeWindow:
    """Stale where the newest data is older than ``fail_window`` seconds, close to it from ``warn_window`` on."""

    fail_window: float
    warn_window: float | None = None


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """Stale where no data came in the ``lower_bound_delta`` seconds before the last tick of ``deadline_cron``."""

    deadline_cron: str
    lower_bound_delta: float
    timezone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class FreshnessRule:
    """How fresh the assets of ``target`` shall be: one of ``time_window`` and ``cron``."""

    target: str
    time_window: TimeWindow | None = None
    cron: Deadline | None = None
    origin: Origin = Origin()
