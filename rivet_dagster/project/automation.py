"""Parsing of ``automation`` and ``freshness`` in the ``dagster:`` block."""

from __future__ import annotations

from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import (
    CONDITIONS,
    ON_CRON,
    AutomationRule,
    Deadline,
    FreshnessRule,
    TimeWindow,
)
from rivet_dagster.model.convert import seconds, timezone
from rivet_dagster.project.settings_file import Section, text

_LEAST = 60
"""The least window in seconds: Dagster evaluates freshness no more often."""


def read_automation(dagster: Section) -> tuple[AutomationRule, ...]:
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


def read_freshness(dagster: Section) -> tuple[FreshnessRule, ...]:
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


def _time_window(rule: Section) -> TimeWindow | None:
    section = rule.section("time_window", f"{rule.place}: time_window")
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


def _deadline(rule: Section) -> Deadline | None:
    section = rule.section("cron", f"{rule.place}: cron")
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
