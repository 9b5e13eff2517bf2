"""``rivet-dagster import``: a project of another tool as a project of joints."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rivet_dagster.cli.importing.text import report_text
from rivet_dagster.dbt.importing import import_dbt_project

PARTIAL = 2


def import_dbt(directory: Path, target: Path, as_json: bool) -> int:
    """Import a dbt project and print the report. Return 2 where something was left out, else 0. Raises RVT-1xx."""
    report = import_dbt_project(directory, target)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        for line in report_text(report, target):
            click.echo(line)
    return 0 if report.is_whole else PARTIAL
