"""Parsing of ``sensors`` in the ``dagster:`` block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import STOPPED
from rivet_dagster.model.convert import whole
from rivet_dagster.model.sensors import (
    AfterSuccessSensor,
    FilesSensor,
    Sensor,
    Sensors,
    SourceChangedSensor,
    SweepSensor,
)
from rivet_dagster.project.schedules import is_named, status
from rivet_dagster.project.settings_file import Section, text, texts


def _some(value: Any) -> tuple[str, ...]:
    names = texts(value)
    if not names:
        raise ValueError("must name at least one source")
    return names


_KINDS: dict[str, tuple[type[Sensor], dict[str, Callable[[Any], object]]]] = {
    "files": (FilesSensor, {"source": text, "target": text}),
    "source_changed": (SourceChangedSensor, {"sources": _some, "target": text}),
    "after_success": (AfterSuccessSensor, {"monitored": text, "target": text}),
    "sweep": (SweepSensor, {}),
}
"""The class of each type of sensor, and its own keys, all of them required."""


def read_sensors(dagster: Section) -> Sensors:
    """Return the valid sensors; errors in others are collected."""
    by_kind: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for name, section in dagster.sections("sensors", "sensor").items():
        kind = section.need("type", text)
        if kind is None or not is_named(section, name):
            continue
        if kind not in _KINDS:
            section.wrong("RVT-104", f"there is no type '{kind}'{nearest(kind, _KINDS)}", "type")
            continue
        sensor = _sensor(kind, name, section)
        if sensor is not None:
            by_kind[kind].append(sensor)
    return Sensors(**{kind: tuple(sensors) for kind, sensors in by_kind.items()})


def _sensor(kind: str, name: str, section: Section) -> Sensor | None:
    sensor_class, needed = _KINDS[kind]
    section.only(("type", *needed, "default_status", "minimum_interval_seconds"))
    own = {key: section.need(key, convert) for key, convert in needed.items()}
    common = {
        "default_status": section.get("default_status", status) or STOPPED,
        "minimum_interval_seconds": section.get("minimum_interval_seconds", whole(1)),
    }
    if None in own.values():
        return None
    return sensor_class(name=name, origin=section.origin, **common, **own)  # type: ignore[arg-type]
