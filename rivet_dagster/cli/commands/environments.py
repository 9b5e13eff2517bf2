"""The commands of environments of the data: ``environment``, ``diff``."""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import (
    ExampleCommand,
    KnownCommands,
    joints,
    with_environment,
    with_format,
    with_project,
    with_variables,
)

DIFF_EXAMPLE = """
rivet-dagster diff --environment pr-7
rivet-dagster diff orders --environment pr-7 --format markdown
"""


@click.group("environment", cls=KnownCommands)
def environment() -> None:
    """Work with environments of the data.

    An environment is a branch of the data. A run there changes nothing that readers of the base see.
    """


@environment.command("list", example="rivet-dagster environment list")
@with_format("text", "json")
@with_variables
@with_project
def list_environments(root: Path, profile: str | None, format: str) -> int:
    """List the environments, and the tables that were built there."""
    from rivet_dagster.cli.environment_command import list_environments

    return list_environments(root, profile, as_json=format == "json")


@environment.command("create", example="rivet-dagster environment create pr-7")
@click.argument("name")
@with_variables
@with_project
def create(root: Path, profile: str | None, name: str) -> int:
    """Make an environment, as `run --environment NAME` does by itself."""
    from rivet_dagster.cli.environment_command import create_environment

    return create_environment(root, profile, name)


@environment.command("merge", example="rivet-dagster environment merge pr-7")
@click.argument("name")
@with_variables
@with_project
def merge(root: Path, profile: str | None, name: str) -> int:
    """Publish the tables of an environment in the base, which ends it."""
    from rivet_dagster.cli.environment_command import merge_environment

    return merge_environment(root, profile, name)


@environment.command("drop", example="rivet-dagster environment drop pr-7")
@click.argument("name")
@with_variables
@with_project
def drop(root: Path, profile: str | None, name: str) -> int:
    """Remove an environment and what was built there."""
    from rivet_dagster.cli.environment_command import drop_environment

    return drop_environment(root, profile, name)


@click.command("diff", cls=ExampleCommand, example=DIFF_EXAMPLE)
@joints
@with_format("text", "json", "markdown")
@with_environment
@with_variables
@with_project
def diff(root: Path, profile: str | None, joints: tuple[str, ...], format: str, environment: str | None) -> int:
    """Show what an environment would change.

    Of all its tables, or of those of JOINT: columns, rows and verdicts of checks.
    """
    from rivet_dagster.cli.difference_command import show_difference

    return show_difference(root, profile, joints, environment, format)
