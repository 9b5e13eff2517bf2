"""The sensors that rivet.yaml declares, each made by its public builder."""

from __future__ import annotations

from typing import TypedDict

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.sensors.after_success import build_after_success_sensor
from rivet_dagster.definitions.sensors.files import build_files_sensor
from rivet_dagster.definitions.sensors.source_changed import build_source_changed_sensor
from rivet_dagster.definitions.sensors.sweep import build_sweep_sensors
from rivet_dagster.model.automation import AfterSuccessSensor, FilesSensor, Sensor, SourceChangedSensor


class _Common(TypedDict):
    name: str
    minimum_interval_seconds: int | None
    default_status: dg.DefaultSensorStatus


def declared_sensor(project: RivetProject, declared: Sensor) -> list[dg.SensorDefinition]:
    """Return the sensors for an entry of ``sensors``: one, or two for a sweep. Raises RivetError."""
    common = _Common(
        name=declared.name,
        minimum_interval_seconds=declared.minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus[declared.default_status],
    )
    origin = declared.origin
    match declared:
        case FilesSensor(source=source, target=target):
            return [build_files_sensor(project, source=source, target=target, origin=origin, **common)]
        case SourceChangedSensor(sources=sources, target=target):
            return [build_source_changed_sensor(project, sources=sources, target=target, origin=origin, **common)]
        case AfterSuccessSensor(monitored=monitored, target=target):
            return [build_after_success_sensor(project, monitored=monitored, target=target, origin=origin, **common)]
        case _:
            return build_sweep_sensors(project, **common)
