"""The commands that look into storage.

They are ``versions``, ``watermark``, ``sweep``, ``upkeep``, ``adopt``, and ``environment`` and ``diff``.
"""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import (
    ExampleCommand,
    KnownCommands,
    joint_names,
    joints,
    with_environment,
    with_format,
    with_project,
    with_variables,
)


@click.group("versions", cls=KnownCommands)
def versions() -> None:
    """Show and choose versions of tables.

    A version is what one run has published, or withheld; readers see one of them.
    """


@versions.command("list", example="rivet-dagster versions list orders")
@click.argument("joint", shell_complete=joint_names)
@with_format("text", "json")
@with_environment
@with_variables
@with_project
def list_versions(root: Path, profile: str | None, joint: str, format: str, environment: str | None) -> int:
    """List the versions of a joint's table, and what they were made from."""
    from rivet_dagster.cli.versions_command import VersionsOf

    return VersionsOf.find(root, profile, joint, environment).list(as_json=format == "json")


@versions.command("rollback", example="rivet-dagster versions rollback orders")
@click.argument("joint", shell_complete=joint_names)
@click.argument("version", required=False)
@with_environment
@with_variables
@with_project
def rollback(root: Path, profile: str | None, joint: str, version: str | None, environment: str | None) -> int:
    """Publish an older version again, the one before the current without VERSION."""
    from rivet_dagster.cli.versions_command import VersionsOf

    return VersionsOf.find(root, profile, joint, environment).rollback(version)


@versions.command("publish", example="rivet-dagster versions publish orders 00000007-3f2a9c1e")
@click.argument("joint", shell_complete=joint_names)
@click.argument("version")
@with_environment
@with_variables
@with_project
def publish(root: Path, profile: str | None, joint: str, version: str, environment: str | None) -> int:
    """Publish a version that a run has withheld."""
    from rivet_dagster.cli.versions_command import VersionsOf

    return VersionsOf.find(root, profile, joint, environment).publish(version)


@versions.command("drop", example="rivet-dagster versions drop orders 00000007-3f2a9c1e")
@click.argument("joint", shell_complete=joint_names)
@click.argument("version")
@with_environment
@with_variables
@with_project
def drop(root: Path, profile: str | None, joint: str, version: str, environment: str | None) -> int:
    """Remove a version that a run has withheld."""
    from rivet_dagster.cli.versions_command import VersionsOf

    return VersionsOf.find(root, profile, joint, environment).drop(version)


@click.group("watermark", cls=KnownCommands)
def watermark() -> None:
    """Show and set watermarks.

    A watermark is how far a published joint has read, from where its next run reads on.
    """


@watermark.command("list", example="rivet-dagster watermark list")
@click.argument("joint", required=False, shell_complete=joint_names)
@with_format("text", "json")
@with_environment
@with_variables
@with_project
def list_watermarks(root: Path, profile: str | None, joint: str | None, format: str, environment: str | None) -> int:
    """List the watermark of a joint, or of all joints that have one."""
    from rivet_dagster.cli.watermark_command import list_watermarks

    return list_watermarks(root, profile, joint, environment, as_json=format == "json")


# A negative number is a value, and no option.
@watermark.command(
    "set", example="rivet-dagster watermark set orders 2026-01-31", context_settings={"ignore_unknown_options": True}
)
@click.argument("joint", shell_complete=joint_names)
@click.argument("value")
@with_environment
@with_variables
@with_project
def set_watermark(root: Path, profile: str | None, joint: str, value: str, environment: str | None) -> int:
    """Have the next run read on from VALUE."""
    from rivet_dagster.cli.watermark_command import override_watermark

    return override_watermark(root, profile, joint, value, environment)


@watermark.command("reset", example="rivet-dagster watermark reset orders")
@click.argument("joint", shell_complete=joint_names)
@with_environment
@with_variables
@with_project
def reset_watermark(root: Path, profile: str | None, joint: str, environment: str | None) -> int:
    """Have the next run read everything."""
    from rivet_dagster.cli.watermark_command import override_watermark

    return override_watermark(root, profile, joint, None, environment)


@click.command("sweep", cls=ExampleCommand, example="rivet-dagster sweep --upkeep")
@click.option("--upkeep", is_flag=True, help="Then do the upkeep of the project's tables.")
@with_variables
@with_project
def sweep(root: Path, profile: str | None, upkeep: bool) -> int:
    """Remove the leftovers of dead runs."""
    from rivet_dagster.cli.upkeep_command import sweep_catalogs, upkeep_of

    sweep_catalogs(root, profile)
    return upkeep_of(root, profile) if upkeep else 0


@click.command("upkeep", cls=ExampleCommand, example="rivet-dagster upkeep --catalog lake")
@click.option("--catalog", "catalogs", multiple=True, metavar="NAME", help="Only its tables; may be repeated.")
@with_format("text", "json")
@with_variables
@with_project
def upkeep(root: Path, profile: str | None, catalogs: tuple[str, ...], format: str) -> int:
    """Keep the files of tables in order.

    Expires snapshots, removes orphan files, and rewrites small files and manifests, as the catalog's `upkeep` says.
    """
    from rivet_dagster.cli.upkeep_command import upkeep_of

    return upkeep_of(root, profile, catalogs, as_json=format == "json")


@click.command("adopt", cls=ExampleCommand, example="rivet-dagster adopt orders")
@click.argument("joint", shell_complete=joint_names)
@click.option("--undo", is_flag=True, help="Give it up, before anything else is published to it.")
@with_variables
@with_project
def adopt(root: Path, profile: str | None, joint: str, undo: bool) -> int:
    """Take over a table that somebody else has made.

    Shows the table. Its rows are the first version of the joint's table; they stay as they are, where they are.
    """
    from rivet_dagster.cli import versions_command

    return versions_command.adopt(root, profile, joint, undo)


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
def remove(root: Path, profile: str | None, name: str) -> int:
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
