"""What the ``dagster:`` block of rivet.yaml asks Dagster to do by itself."""

from __future__ import annotations

from dataclasses import dataclass

RUNNING, STOPPED = "RUNNING", "STOPPED"


@dataclass(frozen=True, kw_only=True)
class SweepSchedule:
    """Sweep at certain times."""

    name: str
    cron_schedule: str
    execution_timezone: str | None = None
    default_status: str = STOPPED
    line: int | None = None
