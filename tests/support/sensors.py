"""A sensor evaluated tick by tick, as by the daemon, and its run requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from rivet_dagster import load_definitions


@dataclass
class Ticker:
    """One sensor: ``cursor`` was saved last, ``runs`` are the requests that became runs."""

    sensor: dg.SensorDefinition
    instance: dg.DagsterInstance
    cursor: str | None = None
    runs: list[dg.RunRequest] = field(default_factory=list)
    skipped: str | None = None

    def tick(self, saved: bool = True) -> Sequence[dg.RunRequest]:
        """Return the requests of one tick that are new to Dagster; unless ``saved``, the cursor is not stored."""
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, sensor_name=self.sensor.name
        ) as context:
            result = self.sensor(context)
        self.skipped = None
        if isinstance(result, dg.SkipReason):
            self.skipped = result.skip_message
            return []
        assert isinstance(result, dg.SensorResult)
        self.skipped = result.skip_reason.skip_message if result.skip_reason else None
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        known = {run.run_key for run in self.runs}
        new = [request for request in result.run_requests or [] if request.run_key not in known]
        self.requested = list(result.run_requests or [])
        self.runs += new
        if saved:
            self.cursor = result.cursor
        return new


def sensor_of(root: Path, name: str) -> dg.SensorDefinition:
    """Return the sensor of that name of the project in ``root``."""
    return next(sensor for sensor in load_definitions(root).sensors or [] if sensor.name == name)
