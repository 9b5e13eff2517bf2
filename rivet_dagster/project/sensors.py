"""``sensors`` of the ``dagster:`` block."""

from __future__ import annotations

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import STOPPED
from rivet_dagster.model.convert import whole
from rivet_dagster.model.sensors import SweepSensor
from rivet_dagster.project.schedules import is_named, status
from rivet_dagster.project.settings_file import Section, text

_SENSORS = ("files", "source_changed", "after_success", "sweep")


def read_sensors(dagster: Section) -> tuple[SweepSensor, ...]:
    """The sensors, those that are wrong left out."""
    found = []
    for name, section in dagster.sections("sensors", "sensor").items():
        kind = section.need("type", text)
        if kind is None or not is_named(section, name):
            continue
        if kind != "sweep":
            _refuse(section, kind, _SENSORS)
            continue
        section.only(("type", "default_status", "minimum_interval_seconds"))
        found.append(
            SweepSensor(
                name=name,
                default_status=section.get("default_status", status) or STOPPED,
                minimum_interval_seconds=section.get("minimum_interval_seconds", whole(1)),
                line=section.value.line,
            )
        )
    return tuple(found)


def _refuse(section: Section, kind: str, known: tuple[str, ...]) -> None:
    if kind in known:
        section.wrong("RVT-103", f"the type '{kind}' is not available yet", "type", "Remove the sensor.")
    else:
        section.wrong("RVT-104", f"there is no type '{kind}'{nearest(kind, known)}", "type")
