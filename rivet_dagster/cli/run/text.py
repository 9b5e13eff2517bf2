"""Printing of a run's report for a reader."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from heapq import nlargest
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rivet_dagster.cli.console import diagnostic_text, show
from rivet_dagster.cli.run.report import CANCELED, FAILED, NOTHING_CHANGED, SKIPPED, SUCCESS, CheckReport, RunReport
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.row_errors import CHECK as ROW_ERRORS
from rivet_dagster.secrets.redaction import redacted

_STYLES = {SUCCESS: "green", FAILED: "bold red", SKIPPED: "yellow", CANCELED: "yellow"}
_SLOWEST_OF_GROUP, _SLOWEST_OF_RUN = 2, 3
_SHOWN = 0.005
"""The least seconds of a phase that is shown."""


def show_report(report: RunReport, assembly: CompiledAssembly, root: Path, environment: str | None = None) -> None:
    """Print the groups with rows and times, the checks, the locations of the tables and the errors on stderr."""
    runtime = Runtime(assembly, root, environment=environment)
    for number, section in enumerate(_sections(report, runtime)):
        if number:
            print(file=sys.stderr)
        show(section, sys.stderr)


def _sections(report: RunReport, runtime: Runtime) -> Iterator[RenderableType]:
    if report is NOTHING_CHANGED:
        yield Text("nothing has changed: all tables are as the base was made")
        return
    if report.groups:
        yield _groups(report)
    sections = (_slowest(report), _checks(report.checks), _row_errors(report), Text(_tables(report, runtime)))
    yield from (section for section in sections if section)
    if report.errors:
        yield Text("\n").join(map(diagnostic_text, report.errors))
    done = sum(group.status == SUCCESS for group in report.groups)
    covered = f" for {report.window}" if report.window is not None else ""
    counted = f"{done} of {len(report.groups)} groups succeeded{covered}"
    yield Text.assemble((counted, "green" if report.success else "bold red"), f"; Dagster run {report.run_id}")


def _groups(report: RunReport) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("group", overflow="fold")
    table.add_column("status")
    table.add_column("rows", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("slowest phases", style="dim")
    for group in report.groups:
        total, seconds = group.rows.get("total"), report.seconds.get(group.name)
        slowest = nlargest(_SLOWEST_OF_GROUP, group.phases.items(), key=lambda phase: phase[1])
        table.add_row(
            group.name,
            Text(group.status, _STYLES[group.status]),
            "" if total is None else f"{total:,}",
            "" if seconds is None else f"{seconds:.1f}",
            ", ".join(f"{phase} {taken:.2f}" for phase, taken in slowest if taken >= _SHOWN),
        )
    return table


def _slowest(report: RunReport) -> Table | None:
    """Return the slowest phases of a run of several groups."""
    phases = [(taken, group.name, phase) for group in report.groups for phase, taken in group.phases.items()]
    slowest = [each for each in nlargest(_SLOWEST_OF_RUN, phases) if each[0] >= _SHOWN]
    if len(report.groups) < 2 or not slowest:
        return None
    shown = ", ".join(f"{phase} of {group} {taken:.2f} s" for taken, group, phase in slowest)
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_row(Text("slowest phases", "bold", no_wrap=True), Text(shown))
    return line


def _checks(checks: Sequence[CheckReport]) -> Text:
    text = Text()
    if not checks:
        return text
    failed = [check for check in checks if not check.passed]
    text.append(f"{len(checks)} check{'' if len(checks) == 1 else 's'}, {len(checks) - len(failed)} passed")
    for check in failed:
        word, style = ("FAILED", "bold red") if check.severity == "error" else ("warning", "yellow")
        result = check.error or f"{check.violations} violations"
        text.append("\n  ").append(word, style).append(f": {check.joint}.{check.check} ({check.kind}): {result}")
        if check.kind != ROW_ERRORS:  # these have a section of their own
            for sample in check.samples[:3]:
                text.append(f"\n    {_row(sample)}", "dim")
    return text


def _row_errors(report: RunReport) -> Text:
    """Return a line for each site of the rows that could not be evaluated in a run that goes on without them."""
    text = Text()
    if report.row_errors:
        total = sum(site.count for site in report.row_errors)
        text.append(f"{total:,} row error{'s' if total != 1 else ''}", "yellow")
        for site in report.row_errors:
            text.append(f"\n  {str(site).partition(chr(10))[0]}")
    return text


def _tables(report: RunReport, runtime: Runtime) -> str:
    lines = []
    for group in report.groups:
        target = runtime.assembly.target(group.name)
        if target is not None and target.declared and group.status == SUCCESS:
            lines.append(f"  {group.name}  {redacted(runtime.catalog(target.catalog).uri(target.table))}")
    return "\n".join(["tables", *lines]) if lines else ""


def _row(sample: Any) -> str:
    text = ", ".join(f"{key}={value}" for key, value in sample.items())
    return shorten_text(text, 110)
