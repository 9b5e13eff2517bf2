"""``rivet-dagster import``: a project of another tool as a project of joints, and the report of what became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rivet_dagster.dbt.importing import import_dbt_project
from rivet_dagster.dbt.report import CHANGED, COMPILED, LEFT_OUT, NOT_NEEDED, UNCHANGED, Report, ReportEntry

PARTIAL = 2


def import_dbt(directory: Path, target: Path, as_json: bool, output: str | None = None) -> int:
    """Import a dbt project and print the report. Return 2 where something was left out, else 0. Raises RVT-1xx.

    With the name of an ``output`` of dbt's profile the new project is run and compared with the tables of that, and 2
    is also returned unless all of them are equal.
    """
    if output is not None:
        return _import_and_verify(directory, target, output, as_json)
    report = import_dbt_project(directory, target)
    _show_report(report, target, as_json, {})
    return 0 if report.is_whole else PARTIAL


def _import_and_verify(directory: Path, target: Path, output: str, as_json: bool) -> int:
    # Imported only here: an import without verification needs no engine.
    from rivet_dagster.cli.import_verification import (
        show_verification,
        verification_json,
        verified_target,
        verify_import,
    )

    verified = verified_target(directory, output)
    report = import_dbt_project(directory, target, output)
    if not as_json:
        _show_report(report, target, as_json, {})
    verification = verify_import(verified, report, target)
    is_whole = report.is_whole and verification.is_whole
    if as_json:
        more = {"success": is_whole, "verification": verification_json(verification)}
        _show_report(report, target, as_json, more)
    else:
        show_verification(verification, target)
    return 0 if is_whole else PARTIAL


def _show_report(report: Report, target: Path, as_json: bool, more: Mapping[str, Any]) -> None:
    if as_json:
        print(json.dumps({**report.to_dict(), **more}, indent=2, ensure_ascii=False))
        return
    for line in report_text(report, target):
        click.echo(line)


_TITLES = {
    LEFT_OUT: ("left out", "red"),
    COMPILED: ("with the text that dbt compiled", "yellow"),
    CHANGED: ("changed", "yellow"),
    NOT_NEEDED: ("not needed", "green"),
    UNCHANGED: ("unchanged", "green"),
}


def report_text(report: Report, target: Path) -> Iterator[str]:
    """Yield the lines of a report: for each kind of thing how many moved, and each one of which something is told."""
    for title, entries in (("models", report.models), ("tests", report.tests), ("others", report.others)):
        if entries:
            yield click.style(f"{title}: {_counted(entries)}", bold=True)
            yield from _entry_lines(entries)
            yield ""
    where = str(target)
    yield f"next: `rivet-dagster compile -p {where}`, `rivet-dagster run -p {where}`"


def _counted(entries: Sequence[ReportEntry]) -> str:
    counts = Counter(entry.status for entry in entries)
    return ", ".join(f"{counts[status]} {title}" for status, (title, _) in _TITLES.items() if counts[status])


def _entry_lines(entries: Sequence[ReportEntry]) -> Iterator[str]:
    """Yield the entries of each status; of what is unchanged the names alone."""
    for status, (title, color) in _TITLES.items():
        same = [entry for entry in entries if entry.status == status]
        if not same:
            continue
        notes = [entry for entry in same if entry.reasons]
        plain = [_name(entry) for entry in same if not entry.reasons]
        yield f"  {click.style(title, fg=color)}"
        if plain:
            yield f"    {', '.join(plain)}"
        for entry in notes:
            yield f"    {_name(entry)}  {_shown(str(entry.location))}"
            yield from (f"      {_shown(reason)}" for reason in entry.reasons)


def _name(entry: ReportEntry) -> str:
    kind = f"{entry.kind.replace('_', ' ')} " if entry.kind is not None else ""
    renamed = f" -> {entry.joint}" if entry.joint not in (None, entry.name) and entry.check is None else ""
    check = f" -> {entry.joint}.{entry.check}" if entry.check is not None else ""
    return _shown(f"{kind}{entry.name}{renamed}{check}")


def _shown(text: str) -> str:
    """Return a text on one line, without what would steer a terminal: names of files can hold anything."""
    return "".join(c if c.isprintable() else " " if c == "\n" else f"\\x{ord(c):02x}" for c in text)
