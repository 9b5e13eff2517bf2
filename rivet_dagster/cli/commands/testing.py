"""The command that runs the project's tests: ``test``."""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import ExampleCommand, with_format, with_project, with_variables
from rivet_dagster.errors import RivetError

TEST_EXAMPLE = """
rivet-dagster test
rivet-dagster test tests/orders.test.yaml -k refunds
rivet-dagster test --watch
"""


@click.command("test", cls=ExampleCommand, example=TEST_EXAMPLE)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--watch", is_flag=True, help="Run what each saved file touches, until Ctrl-C.")
@click.option("-k", "text", metavar="TEXT", help="Only tests whose name contains TEXT.")
@with_format("text", "json")
@with_variables
@with_project
def test(root: Path, profile: str | None, paths: tuple[str, ...], watch: bool, text: str | None, format: str) -> int:
    """Run the tests of the project.

    All of them, or those in the files and folders PATH. The rows that joints read are those that the tests give: no
    catalog is contacted and nothing is written.
    """
    if watch and format == "json":
        raise RivetError("RVT-110", "--watch has no JSON: it does not end")
    from rivet_dagster.cli.testing_command import run_project_tests, watch_project_tests

    if watch:
        return watch_project_tests(root, profile, paths, text)
    return run_project_tests(root, profile, paths, text, as_json=format == "json")
