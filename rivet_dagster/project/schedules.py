"""Parsing of ``schedules`` and ``observe`` in the ``dagster:`` block."""

from __future__ import annotations

import re
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import RUNNING, STOPPED, ObservationSchedule, SweepSchedule, TargetSchedule
from rivet_dagster.model.convert import timezone, whole
from rivet_dagster.project.settings_file import Section, text, texts

_NAME = re.compile(r"\w+", re.ASCII)
_TIMES = ("cron_schedule", "execution_timezone", "default_status")


def read_schedules(dagster: Section) -> tuple[tuple[TargetSchedule, ...], tuple[SweepSchedule, ...]]:
    """Return the valid schedules of targets and those of sweeps; errors in others are collected."""
    targets, sweeps = [], []
    for name, section in dagster.sections("schedules", "schedule").items():
        if not is_named(section, name):
            continue
        if "type" in section.value:
            section.only(("type", *_TIMES))
            kind, times = section.need("type", _sweep), _times(section)
            if kind is not None and times is not None:
                sweeps.append(SweepSchedule(name=name, **times))
            continue
        section.only(("target", *_TIMES, "partition_offset"))
        target, times = section.need("target", text), _times(section)
        offset = section.get("partition_offset", whole(0)) or 0
        if target is not None and times is not None:
            targets.append(TargetSchedule(name=name, target=target, partition_offset=offset, **times))
    return tuple(targets), tuple(sweeps)


def read_observations(dagster: Section) -> tuple[ObservationSchedule, ...]:
    """Return the valid schedules of observations; errors in others are collected."""
    schedules = []
    for name, section in dagster.sections("observe", "observation").items():
        if not is_named(section, name):
            continue
        section.only(("sources", *_TIMES))
        sources, times = section.need("sources", _some), _times(section)
        if sources is not None and times is not None:
            schedules.append(ObservationSchedule(name=name, sources=sources, **times))
    return tuple(schedules)


def is_named(section: Section, name: str) -> bool:
    """Return whether Dagster allows the name; otherwise an error is collected."""
    if not _NAME.fullmatch(name):
        section.wrong("RVT-104", "Dagster's names are letters, digits and '_'")
        return False
    return True


def status(value: Any) -> str:
    """Return RUNNING or STOPPED. Raise ValueError for any other value."""
    if value not in (RUNNING, STOPPED):
        raise ValueError(f"must be {RUNNING} or {STOPPED}")
    return str(value)


def _times(section: Section) -> dict[str, Any] | None:
    """Return the common attributes of schedules; None where the cron schedule is missing."""
    cron = section.need("cron_schedule", text)
    times = {
        "cron_schedule": cron,
        "execution_timezone": section.get("execution_timezone", timezone),
        "default_status": section.get("default_status", status) or STOPPED,
        "origin": section.origin,
    }
    return times if cron is not None else None


def _sweep(value: Any) -> str:
    if value != "sweep":
        hint = nearest(value, ("sweep",), listed=False) if isinstance(value, str) else ""
        raise ValueError(f"must be sweep, or left out where there is a `target`{hint}")
    return "sweep"


def _some(value: Any) -> tuple[str, ...]:
    names = texts(value)
    if not names:
        raise ValueError("must name at least one source")
    return names
