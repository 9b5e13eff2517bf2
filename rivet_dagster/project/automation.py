"""Parsing of the ``dagster:`` block: automation and freshness rules, schedules, observations, sensors and exposures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import (
    CONDITIONS,
    ON_CRON,
    RUNNING,
    STOPPED,
    AfterSuccessSensor,
    AutomationRule,
    Deadline,
    FilesSensor,
    FreshnessRule,
    ObservationSchedule,
    Sensor,
    Sensors,
    SourceChangedSensor,
    SweepSchedule,
    SweepSensor,
    TargetSchedule,
    TimeWindow,
    UpkeepSchedule,
)
from rivet_dagster.model.convert import seconds, timezone, whole
from rivet_dagster.model.joint import OWNER
from rivet_dagster.model.project import Exposure
from rivet_dagster.project.settings_file import SettingsSection, text, texts

_LEAST = 60
"""The least window in seconds: Dagster evaluates freshness no more often."""


def read_automation(dagster: SettingsSection) -> tuple[AutomationRule, ...]:
    """Return the valid rules; errors in others are collected."""
    rules = []
    for section in dagster.entries("automation", "automation rule"):
        section.only(("target", "condition", "cron_schedule", "timezone"))
        target, condition = section.need("target", text), section.need("condition", _condition)
        cron = section.need("cron_schedule", text) if condition == ON_CRON else None
        zone = section.get("timezone", timezone)
        for key in ("cron_schedule", "timezone"):
            if condition is not None and condition != ON_CRON and key in section.value:
                section.wrong("RVT-103", f"`{key}` has no meaning where the condition is {condition}", key)
        if target is not None and condition is not None and (cron is not None or condition != ON_CRON):
            rules.append(
                AutomationRule(
                    target=target, condition=condition, cron_schedule=cron, timezone=zone, origin=section.origin
                )
            )
    return tuple(rules)


def read_freshness(dagster: SettingsSection) -> tuple[FreshnessRule, ...]:
    """Return the valid rules; errors in others are collected."""
    rules = []
    for section in dagster.entries("freshness", "freshness rule"):
        section.only(("target", "time_window", "cron"))
        target = section.need("target", text)
        window, deadline = _time_window(section), _deadline(section)
        given = [key for key in ("time_window", "cron") if key in section.value]
        if len(given) != 1:
            code, problem = ("RVT-104", "only one") if given else ("RVT-105", "one")
            section.wrong(code, f"needs {problem} of `time_window` and `cron`", "cron")
        elif target is not None and (window is not None or deadline is not None):
            rules.append(FreshnessRule(target=target, time_window=window, cron=deadline, origin=section.origin))
    return tuple(rules)


def _time_window(rule: SettingsSection) -> TimeWindow | None:
    section = rule.section("time_window", f"{rule.subject}: time_window")
    if section is None:
        return None
    section.only(("fail_window", "warn_window"))
    fail, warn = section.need("fail_window", _window), section.get("warn_window", _window)
    if fail is None:
        return None
    if warn is not None and warn >= fail:
        section.wrong("RVT-104", "`warn_window` must be shorter than `fail_window`", "warn_window")
        return None
    return TimeWindow(fail_window=fail, warn_window=warn)


def _deadline(rule: SettingsSection) -> Deadline | None:
    section = rule.section("cron", f"{rule.subject}: cron")
    if section is None:
        return None
    section.only(("deadline_cron", "lower_bound_delta", "timezone"))
    cron, delta = section.need("deadline_cron", text), section.need("lower_bound_delta", _window)
    zone = section.get("timezone", timezone)
    if cron is None or delta is None:
        return None
    return Deadline(deadline_cron=cron, lower_bound_delta=delta, timezone=zone or Deadline.timezone)


def _condition(value: Any) -> str:
    if value not in CONDITIONS:
        hint = nearest(value, CONDITIONS) if isinstance(value, str) else ""
        raise ValueError(f"must be one of {', '.join(CONDITIONS)}{hint}")
    return str(value)


def _window(value: Any) -> float:
    length = seconds(value)
    if length < _LEAST:
        raise ValueError("must be at least 1m")
    return length


_NAME = re.compile(r"\w+", re.ASCII)
_TIMES = ("cron_schedule", "execution_timezone", "default_status")
_SWEEP, _UPKEEP = _TYPES = ("sweep", "upkeep")


@dataclass(frozen=True)
class Schedules:
    """The valid schedules, by what they do."""

    targets: tuple[TargetSchedule, ...]
    sweeps: tuple[SweepSchedule, ...]
    upkeeps: tuple[UpkeepSchedule, ...]


def read_schedules(dagster: SettingsSection) -> Schedules:
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


def read_observations(dagster: SettingsSection) -> tuple[ObservationSchedule, ...]:
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


def is_named(section: SettingsSection, name: str) -> bool:
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


def _times(section: SettingsSection) -> dict[str, Any] | None:
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


def read_exposures(dagster: SettingsSection) -> tuple[Exposure, ...]:
    """Return the valid exposures; errors in others are collected."""
    exposures = []
    for name, section in dagster.sections("exposures", "exposure").items():
        if not is_named(section, name):
            continue
        section.only(("depends_on", "owners", "url", "description"))
        depends_on = section.need("depends_on", _some_joints)
        owners = section.get("owners", _owners)
        url, description = section.get("url", text), section.get("description", text)
        if depends_on is not None:
            exposures.append(
                Exposure(
                    name=name,
                    depends_on=depends_on,
                    owners=owners or (),
                    url=url,
                    description=description,
                    origin=section.origin,
                )
            )
    return tuple(exposures)


def _some_joints(value: Any) -> tuple[str, ...]:
    names = texts(value)
    if not names:
        raise ValueError("must name at least one joint")
    return names


def _owners(value: Any) -> tuple[str, ...]:
    owners = texts(value)
    for owner in owners:
        if not OWNER.fullmatch(owner):
            raise ValueError(f"holds '{owner}', which is neither an e-mail address nor `team:` with a name")
    return owners


_KINDS: dict[str, tuple[type[Sensor], dict[str, Callable[[Any], object]]]] = {
    "files": (FilesSensor, {"source": text, "target": text}),
    "source_changed": (SourceChangedSensor, {"sources": _some, "target": text}),
    "after_success": (AfterSuccessSensor, {"monitored": text, "target": text}),
    "sweep": (SweepSensor, {}),
}
"""The class of each type of sensor, and its own keys, all of them required."""


def read_sensors(dagster: SettingsSection) -> Sensors:
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


def _sensor(kind: str, name: str, section: SettingsSection) -> Sensor | None:
    sensor_class, needed = _KINDS[kind]
    section.only(("type", *needed, "default_status", "minimum_interval_seconds"))
    specific = {key: section.need(key, convert) for key, convert in needed.items()}
    common = {
        "default_status": section.get("default_status", status) or STOPPED,
        "minimum_interval_seconds": section.get("minimum_interval_seconds", whole(1)),
    }
    if None in specific.values():
        return None
    return sensor_class(name=name, origin=section.origin, **common, **specific)  # type: ignore[arg-type]
