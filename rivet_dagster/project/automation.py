"""``schedules`` of the ``dagster:`` block."""

from __future__ import annotations

import re
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import RUNNING, STOPPED, SweepSchedule
from rivet_dagster.project.settings_file import Section, text

_NAME = re.compile(r"\w+", re.ASCII)


def read_schedules(dagster: Section) -> tuple[SweepSchedule, ...]:
    """The schedules, those that are wrong left out."""
    found = []
    for name, section in dagster.sections("schedules", "schedule").items():
        if not is_named(section, name):
            continue
        if "target" in section.value:
            section.wrong("RVT-103", "`target` is not available yet", "target", "Remove the schedule.")
            continue
        kind = section.need("type", text)
        if kind is not None and kind != "sweep":
            refuse(section, kind, ("sweep",))
            continue
        section.only(("type", "cron_schedule", "execution_timezone", "default_status"))
        cron = section.need("cron_schedule", text)
        if kind is not None and cron is not None:
            found.append(
                SweepSchedule(
                    name=name,
                    cron_schedule=cron,
                    execution_timezone=section.get("execution_timezone", text),
                    default_status=section.get("default_status", status) or STOPPED,
                    line=section.value.line,
                )
            )
    return tuple(found)


def is_named(section: Section, name: str) -> bool:
    """Whether Dagster takes the name; where it does not, that is collected as an error."""
    if not _NAME.fullmatch(name):
        section.wrong("RVT-104", "Dagster's names are letters, digits and '_'")
        return False
    return True


def refuse(section: Section, kind: str, known: tuple[str, ...]) -> None:
    """Collect the error of a wrong `type`."""
    if kind in known:
        section.wrong("RVT-103", f"the type '{kind}' is not available yet", "type", "Remove the sensor.")
    else:
        section.wrong("RVT-104", f"there is no type '{kind}'{nearest(kind, known)}", "type")


def status(value: Any) -> str:
    """RUNNING or STOPPED."""
    if value not in (RUNNING, STOPPED):
        raise ValueError(f"must be {RUNNING} or {STOPPED}")
    return str(value)
