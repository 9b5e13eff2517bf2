"""Parsing of ``schedules`` and ``observe`` in the ``dagster:`` block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import (
    RUNNING,
    STOPPED,
    ObservationSchedule,
    SweepSchedule,
    TargetSchedule,
    UpkeepSchedule,
)
from rivet_dagster.model.convert import timezone, whole
from rivet_dagster.project.settings_file import Section, text, texts

_NAME = re.compile(r"\w+", re.ASCII)
_TIMES = ("cron_schedule", "execution_timezone", "default_status")
_SWEEP, _UPKEEP = _TYPES = ("sweep", "upkeep")


@dataclass(frozen=True)
class Schedules:
    """The valid schedules, by what they do."""

    targets: tuple[TargetSchedule, ...]
    sweeps: tuple[SweepSchedule, ...]
    upkeeps: tuple[UpkeepSchedule, ...]


def read_schedules(dagster: Section) -> Schedules:
    """Return the valid schedules; errors in others are collected."""
    targets, sweeps, upkeeps = [], [], []
    for name, section in dagster.sections("schedules", "schedule").items():
        if not is_named(section, name):
            continue
        if "type" in section.value:
            kind = section.need("type", _type)
            section.only(("type", *_TIMES, *(() if kind == _SWEEP else ("catalogs",))))
            times = _times(section)
            if kind == _SWEEP and times is not None:
                sweeps.append(SweepSchedule(name=name, **times))
            elif kind == _UPKEEP:
                catalogs = section.get("catalogs", _some_catalogs)
                if times is not None:
                    upkeeps.append(UpkeepSchedule(name=name, catalogs=catalogs or (), **times))
            continue
        section.only(("target", *_TIMES, "partition_offset"))
        target, times = section.need("target", text), _times(section)
        offset = section.get("partition_offset", whole(0)) or 0
        if target is not None and times is not None:
            targets.append(TargetSchedule(name=name, target=target, partition_offset=offset, **times))
    return Schedules(tuple(targets), tuple(sweeps), tuple(upkeeps))


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


def _type(value: Any) -> str:
    if value not in _TYPES:
        hint = nearest(value, _TYPES, listed=False) if isinstance(value, str) else ""
        raise ValueError(f"must be {' or '.join(_TYPES)}, or left out where there is a `target`{hint}")
    return str(value)


def _some_catalogs(value: Any) -> tuple[str, ...]:
    names = texts(value)
    if not names:
        raise ValueError("must name at least one catalog, or be left out for all")
    return names


def _some(value: Any) -> tuple[str, ...]:
    names = texts(value)
    if not names:
        raise ValueError("must name at least one source")
    return names
