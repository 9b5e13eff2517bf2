"""Rendering of a run's report as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rivet_dagster.cli.run_report import NOTHING_CHANGED, SUCCESS, CheckReport, GroupReport, RunReport
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.runs.fail_fast import was_not_started
from rivet_dagster.execution.phases import PHASES
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.convert import shortened
from rivet_dagster.model.joint import SINK
from rivet_dagster.model.row_errors import CHECK as EVALUATION_ERRORS
from rivet_dagster.redaction import redacted

_WORDS = {
    "STEP_START": "running",
    "STEP_UP_FOR_RETRY": "will be tried again",
    "STEP_RESTARTED": "running again",
    "STEP_SUCCESS": "done",
    "STEP_FAILURE": "FAILED",
}


def report_text(report: RunReport, assembly: CompiledAssembly, root: Path, environment: str | None = None) -> str:
    """Return the groups with rows and phase times, the checks, the locations of the tables and the errors."""
    if report is NOTHING_CHANGED:
        return "nothing has changed: all tables are as the base was made"
    done = sum(group.status == SUCCESS for group in report.groups)
    covered = f" for {report.window}" if report.window is not None else ""
    sections = [
        _table(["group", "status", "rows", *PHASES], [_group_row(group) for group in report.groups]),
        _checks(report.checks),
        _quarantined(report),
        _tables(report, Runtime(assembly, root, environment=environment)),
        "\n".join(str(error) for error in report.errors),
        f"{done} of {len(report.groups)} groups succeeded{covered}; Dagster run {report.run_id}",
    ]
    return "\n\n".join(section for section in sections if section)


def event_line(event: Any) -> str | None:
    """Return the progress line of an event; None for events that are not shown."""
    if event is None or event.step_key is None:
        return None
    word = _WORDS.get(event.event_type_value)
    if event.event_type_value == "STEP_FAILURE" and was_not_started(event):
        word = "not started"
    return f"{event.step_key}: {word}" if word else None


def _group_row(group: GroupReport) -> list[str]:
    total = group.rows.get("total")
    times = [f"{group.phases[phase]:.2f}s" if phase in group.phases else "" for phase in PHASES]
    return [group.name, group.status, "" if total is None else f"{total:,}", *times]


def _checks(checks: Sequence[CheckReport]) -> str:
    if not checks:
        return ""
    failed = [check for check in checks if not check.passed]
    lines = [f"{len(checks)} checks, {len(checks) - len(failed)} passed"]
    for check in failed:
        word = "FAILED" if check.severity == "error" else "warning"
        result = check.error or f"{check.violations} violations"
        lines.append(f"  {word}: {check.joint}.{check.check} ({check.kind}): {result}")
        if check.kind != EVALUATION_ERRORS:  # these have a section of their own
            lines += [f"    {_row(sample)}" for sample in check.samples[:3]]
    return "\n".join(lines)


def _quarantined(report: RunReport) -> str:
    """Return a line for each site of the rows that could not be evaluated in a run that goes on without them."""
    if not report.quarantined:
        return ""
    total = sum(site.count for site in report.quarantined)
    lines = [f"{total:,} evaluation error{'s' if total != 1 else ''}"]
    return "\n".join([*lines, *(f"  {str(site).partition(chr(10))[0]}" for site in report.quarantined)])


def _tables(report: RunReport, runtime: Runtime) -> str:
    lines = []
    for group in report.groups:
        joint = runtime.assembly.joint(group.name)
        if joint.type == SINK and group.status == SUCCESS and joint.catalog and joint.table:
            lines.append(f"  {joint.name}  {redacted(runtime.catalog(joint.catalog).uri(joint.table))}")
    return "\n".join(["tables", *lines]) if lines else ""


def _row(sample: Any) -> str:
    text = ", ".join(f"{key}={value}" for key, value in sample.items())
    return shortened(text, 110)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    left_aligned = 2  # the first columns are names and words, the others numbers
    lines = []
    for row in [head, *rows]:
        cells = [
            c.ljust(w) if i < left_aligned else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
