"""``rivet-dagster run``: a Dagster run in this process, whose Spark starts while Dagster is imported."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path

from rivet_dagster.cli.compiled import compiled
from rivet_dagster.cli.run.early_start import start_early
from rivet_dagster.cli.run.request import RunRequest
from rivet_dagster.cli.screen.terminal import screen_on
from rivet_dagster.cli.stdout import stdout_kept_for_the_report
from rivet_dagster.project.environment_name import environment_name


def run_command(root: Path, profile: str | None, request: RunRequest, as_json: bool) -> int:
    """Materialize the selected joints and print the report. Return its exit code."""
    root = root.resolve()
    environment = environment_name(request.environment, os.environ)
    assembly = compiled(root, profile, recall=True)
    with stdout_kept_for_the_report(), closing(screen_on(sys.stderr)) as screen:
        if not request.changed:  # else there may be nothing to run
            start_early(assembly, root)
        from rivet_dagster.cli.run.dagster_run import materialize

        report = materialize(request, assembly, root, screen, environment)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        from rivet_dagster.cli.run.text import show_report

        show_report(report, assembly, root, environment)
    return report.exit_code
