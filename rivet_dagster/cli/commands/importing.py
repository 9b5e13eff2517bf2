"""The commands that move projects of other tools over: ``import``."""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import ExampleCommand, KnownCommands, with_format

DBT_EXAMPLE = """
rivet-dagster import dbt jaffle_shop --to shop
rivet-dagster import dbt jaffle_shop --to shop --format json > report.json
"""


@click.group("import", cls=KnownCommands)
def import_() -> None:
    """Make a project of one that was written for another tool."""


@import_.command("dbt", cls=ExampleCommand, example=DBT_EXAMPLE)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--to", "target", metavar="NEW", required=True, type=click.Path(path_type=Path), help="The new project.")
@with_format("text", "json")
@click.option("--verbose", is_flag=True, help="Show the traceback of an error.")
def dbt(directory: Path, target: Path, format: str, verbose: bool) -> int:
    """Write the project of joints that a dbt project becomes.

    DIR is the directory with dbt_project.yml, which is only read; dbt itself is not needed. NEW is a directory that
    does not exist, or an empty one. The report tells what was changed and what was left out, and why; the exit code is
    2 where something was left out.
    """
    from rivet_dagster.cli.import_command import import_dbt

    return import_dbt(directory, target, as_json=format == "json")
