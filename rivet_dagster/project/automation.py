"""``schedules`` and ``sensors`` of the ``dagster:`` block."""

from __future__ import annotations

import re
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import RUNNING, STOPPED, SweepSchedule, SweepSensor
from rivet_dagster.model.convert import whole
from rivet_dagster.project.settings_file import Section, text

_NAME = re.compile(r"\w+", re.ASCII)
_SENSORS = ("files", "source_changed", "after_success", "sweep")


def read_sensors(dagster: Section) -> tuple[SweepSensor, ...]:
    """The sensors, those that are wrong left out."""
    found = []
    for name, section in dagster.sections("sensors", "sensor").items():
        kind = section.need("type", text)
        if kind is None or not _is_named(section, name):
            continue
        if kind != "sweep":
            _refuse(section, kind, _SENSORS)
            continue
        section.only(("type", "default_status", "minimum_interval_seconds"))
        found.append(
            SweepSensor(
                name=name,
                default_status=section.get("default_status", _status) or STOPPED,
                minimum_interval_seconds=section.get("minimum_interval_seconds", whole(1)),
                line=section.value.line,
            )
        )
    return tuple(found)


def read_schedules(dagster: Section) -> tuple[SweepSchedule, ...]:
    """The schedules, those that are wrong left out."""
    found = []
    for name, section in dagster.sections("schedules", "schedule").items():
        if not _is_named(section, name):
            continue
        if "target" in section.value:
            section.wrong("RVT-103", "`target` is not available yet", "target", "Remove the schedule.")
            continue
        kind = section.need("type", text)
        if kind is not None and kind != "sweep":
            _refuse(section, kind, ("sweep",))
            continue
        section.only(("type", "cron_schedule", "execution_timezone", "default_status"))
        cron = section.need("cron_schedule", text)
        if kind is not None and cron is not None:
            found.append(
                SweepSchedule(
                    name=name,
                    cron_schedule=cron,
                    execution_timezone=section.get("execution_timezone", text),
                    default_status=section.get("default_status", _status) or STOPPED,
                    line=section.value.line,
                )
            )
    return tuple(found)


def _is_named(section: Section, name: str) -> bool:
    if not _NAME.fullmatch(name):
        section.wrong("RVT-104", "Dagster's names are letters, digits and '_'")
        return False
    return True


def _refuse(section: Section, kind: str, known: tuple[str, ...]) -> None:
    if kind in known:
        section.wrong("RVT-103", f"the type '{kind}' is not available yet", "type", "Remove the sensor.")
    else:
        section.wrong("RVT-104", f"there is no type '{kind}'{nearest(kind, known)}", "type")


def _status(value: Any) -> str:
    if value not in (RUNNING, STOPPED):
        raise ValueError(f"must be {RUNNING} or {STOPPED}")
    return str(value)
