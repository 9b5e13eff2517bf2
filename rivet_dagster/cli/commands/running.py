"""The commands that compute rows: ``run``, ``show`` and ``test``."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import (
    ExampleCommand,
    joint_names,
    with_engine,
    with_environment,
    with_format,
    with_project,
    with_variables,
)
from rivet_dagster.errors import RivetError

RUN_EXAMPLE = """
rivet-dagster run
rivet-dagster run +daily_revenue
rivet-dagster run --select 'group:marts'
rivet-dagster run daily_revenue --partition 2026-01-31
rivet-dagster run +daily_revenue --full-refresh
rivet-dagster run --dry-run
"""


@click.command("run", cls=ExampleCommand, example=RUN_EXAMPLE)
@click.argument("joints", nargs=-1, metavar="[[+]JOINT]...", shell_complete=joint_names)
@click.option("--select", metavar="SELECTION", help="Assets in Dagster's own selection syntax.")
@click.option("--partition", metavar="KEY", help="The partition to make.")
@click.option("--partition-range", metavar="A...B", help="The partitions from A to B, in one run.")
@click.option("--changed", is_flag=True, help="Only what is not as in the base, and what reads it.")
@click.option("--full-refresh", is_flag=True, help="Replace the tables as a first run would.")
@click.option("--dry-run", is_flag=True, help="Only show which groups would run, with their SQL and writes.")
@click.option("--no-fail-fast", is_flag=True, help="Go on with what does not need a failed group.")
@with_format("text", "json")
@with_environment
@with_variables
@with_project
def run(
    root: Path,
    profile: str | None,
    joints: tuple[str, ...],
    select: str | None,
    partition: str | None,
    partition_range: str | None,
    changed: bool,
    full_refresh: bool,
    dry_run: bool,
    no_fail_fast: bool,
    format: str,
    environment: str | None,
) -> int:
    """Materialize joints.

    Without JOINT all of them, else the groups of those named; with a + before the name also what they need. It is a
    Dagster run in this process.
    """
    if partition is not None and partition_range is not None:
        raise RivetError("RVT-110", "--partition-range is not allowed with --partition")
    from rivet_dagster.cli.run.selection import RunRequest

    request = RunRequest(joints, select, partition, partition_range, changed, no_fail_fast, environment, full_refresh)
    if dry_run:
        from rivet_dagster.cli.run.command import show_dry_run

        return show_dry_run(root, profile, request, as_json=format == "json")
    # SIGTERM is handled like SIGINT, so that a run asked to end discards what it staged.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    from rivet_dagster.cli.run.command import run_command

    return run_command(root, profile, request, as_json=format == "json")


SHOW_EXAMPLE = """
rivet-dagster show daily_revenue
rivet-dagster show orders --where 'amount > 100' --limit 5 --format csv
"""


@click.command("show", cls=ExampleCommand, example=SHOW_EXAMPLE)
@click.argument("joint", shell_complete=joint_names)
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="The most rows to show.")
@click.option("--where", metavar="SQL", help="A condition of the rows; it comes before the limit.")
@with_format("table", "json", "csv")
@with_engine
@with_variables
@with_project
def show(
    root: Path, profile: str | None, joint: str, limit: int, where: str | None, format: str, engine: str | None
) -> int:
    """Show rows of a joint.

    They are computed now, from the sources; nothing is written. Of a table they are those of a run's batch.
    """
    from rivet_dagster.cli.show_command import show_joint

    return show_joint(root, profile, joint, limit, where, format, engine)


TEST_EXAMPLE = """
rivet-dagster test
rivet-dagster test tests/orders.test.yaml -k refunds
rivet-dagster test --watch
rivet-dagster test --engine sail
"""


@click.command("test", cls=ExampleCommand, example=TEST_EXAMPLE)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--watch", is_flag=True, help="Run what each saved file touches, until Ctrl-C.")
@click.option("-k", "text", metavar="TEXT", help="Only tests whose name contains TEXT.")
@with_format("text", "json")
@with_engine
@with_variables
@with_project
def test(
    root: Path,
    profile: str | None,
    paths: tuple[str, ...],
    watch: bool,
    text: str | None,
    format: str,
    engine: str | None,
) -> int:
    """Run the tests of the project.

    All of them, or those in the files and folders PATH. The rows that joints read are those that the tests give: no
    catalog is contacted and nothing is written.
    """
    if watch and format == "json":
        raise RivetError("RVT-110", "--watch has no JSON: it does not end")
    from rivet_dagster.cli.testing_command import run_project_tests, watch_project_tests

    if watch:
        return watch_project_tests(root, profile, paths, text, engine)
    return run_project_tests(root, profile, paths, text, engine, as_json=format == "json")
