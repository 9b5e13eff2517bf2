"""The sensors that the ``dagster:`` block of rivet.yaml asks for."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.model.automation import STOPPED


@dataclass(frozen=True, kw_only=True)
class SweepSensor:
    """Sweep after each run of the project that failed or was canceled."""

    name: str
    default_status: str = STOPPED
    minimum_interval_seconds: int | None = None
    line: int | None = None
