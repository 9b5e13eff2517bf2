"""The commands of a project before it runs: ``init``, ``compile``, ``lineage``, ``schema`` and ``import``."""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import (
    ExampleCommand,
    KnownCommands,
    joint_names,
    joints,
    with_engine,
    with_format,
    with_project,
    with_variables,
)
from rivet_dagster.collector import without_collector

COMPILE_EXAMPLE = """
rivet-dagster compile
rivet-dagster compile orders --format json
rivet-dagster compile --analyze
rivet-dagster compile --format json > plan.json; rivet-dagster compile --diff plan.json
"""


@click.command("compile", cls=ExampleCommand, example=COMPILE_EXAMPLE)
@joints
@with_format("visual", "json", "mermaid")
@click.option(
    "--introspect", is_flag=True, help="Ask the catalogs for the columns of sources, and of published tables."
)
@click.option("--analyze", is_flag=True, help="Let the engine's analyzer judge every query; no data is read.")
@with_engine
@click.option("--diff", metavar="OLD.json", help="Show what differs from a plan of `--format json`.")
@with_variables
@with_project
def compile_(
    root: Path,
    profile: str | None,
    joints: tuple[str, ...],
    format: str,
    introspect: bool,
    analyze: bool,
    engine: str | None,
    diff: str | None,
) -> int:
    """Show the plan.

    With JOINT only the groups of these joints. No data is read, nothing is run.
    """
    with without_collector():
        from rivet_dagster.cli.compile.command import compare_plans, compiled_plan, show_plan

        compiled = compiled_plan(root, profile, introspect, analyze, engine)
        return show_plan(compiled, joints, format) if diff is None else compare_plans(compiled, joints, format, diff)


LINEAGE_EXAMPLE = """
rivet-dagster lineage daily_revenue
rivet-dagster lineage daily_revenue.revenue
rivet-dagster lineage orders.amount --downstream
"""


@click.command("lineage", cls=ExampleCommand, example=LINEAGE_EXAMPLE)
@click.argument("name", metavar="JOINT[.COLUMN]", shell_complete=joint_names)
@click.option("--downstream", is_flag=True, help="What is computed from it, in place of what it is computed from.")
@with_variables
@with_project
def lineage(root: Path, profile: str | None, name: str, downstream: bool) -> int:
    """Show what a joint or a column is computed from.

    Columns that only filter, join or group rows are left out.
    """
    from rivet_dagster.cli.lineage_command import show_lineage

    return show_lineage(root, profile, name, downstream)


INIT_EXAMPLE = """
rivet-dagster init shop
rivet-dagster init shop --example
"""


@click.command("init", cls=ExampleCommand, example=INIT_EXAMPLE)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--example", is_flag=True, help="With a source and its data, joints with checks, and a test.")
@click.option("--verbose", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def init(context: click.Context, directory: Path | None, example: bool, verbose: bool) -> int:
    """Make a project that runs at once.

    DIRECTORY is by default that of `rivet-dagster -p DIRECTORY init`, else the current one. One that has a project, or
    other files of these names, is refused and stays as it is.
    """
    from rivet_dagster.cli.init_command import init_project

    return init_project(directory or Path(context.find_root().params["project"] or "."), example)


SCHEMA_EXAMPLE = """
rivet-dagster schema joint > .rivet/schemas/joint.json
"""


@click.command("schema", cls=ExampleCommand, example=SCHEMA_EXAMPLE)
@click.argument("file", type=click.Choice(["rivet", "profiles", "joint", "test"]), default="joint")
def schema(file: str) -> int:
    """Print a JSON Schema for editors.

    With it a YAML language server completes and checks rivet.yaml, profiles.yaml, joints and tests.
    """
    from rivet_dagster.cli.schema_command import print_schema

    return print_schema(file)


DBT_EXAMPLE = """
rivet-dagster import dbt jaffle_shop --to shop
rivet-dagster import dbt jaffle_shop --to shop --format json > report.json
rivet-dagster import dbt jaffle_shop --to shop --verify dev
"""


@click.group("import", cls=KnownCommands)
def import_() -> None:
    """Make a project of one that was written for another tool."""


@import_.command("dbt", cls=ExampleCommand, example=DBT_EXAMPLE)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--to", "target", metavar="NEW", required=True, type=click.Path(path_type=Path), help="The new project.")
@click.option(
    "--verify",
    "output",
    metavar="TARGET",
    help="Run the new project in an environment, and compare its rows with the tables of this target of dbt's profile.",
)
@with_format("text", "json")
@click.option("--verbose", is_flag=True, help="Show the traceback of an error.")
def dbt(directory: Path, target: Path, output: str | None, format: str, verbose: bool) -> int:
    """Write the project of joints that a dbt project becomes.

    DIR is the directory with dbt_project.yml, which is only read; dbt itself is not needed. NEW is a directory that
    does not exist, or an empty one. The report tells what was changed and what was left out, and why; the exit code is
    2 where something was left out, and with --verify also unless all tables are equal. Only --verify starts Spark.
    """
    with without_collector():
        from rivet_dagster.cli.import_command import import_dbt

    return import_dbt(directory, target, as_json=format == "json", output=output)
