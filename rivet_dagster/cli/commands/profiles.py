"""The commands of a profile's entries: ``catalog``, ``engine``."""

from __future__ import annotations

from pathlib import Path

import click

from rivet_dagster.cli.commands.parameters import KnownCommands, with_format, with_project

CREATE_CATALOG_EXAMPLE = """
rivet-dagster catalog create lake --type filesystem --option path=lake
rivet-dagster catalog create ice --type iceberg --option catalog=hadoop --option warehouse=ice
"""
CREATE_ENGINE_EXAMPLE = """
rivet-dagster engine create spark --type pyspark --catalogs raw,lake --option 'master=local[*]'
"""

_option = click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option; VALUE is read as YAML. May be repeated."
)


@click.group("catalog", cls=KnownCommands)
def catalog() -> None:
    """Show and add catalogs."""


@catalog.command("list", example="rivet-dagster catalog list")
@with_format("text", "json")
@with_project
def list_catalogs(root: Path, profile: str | None, format: str) -> int:
    """List the catalogs of the profile.

    Tells of each its type, its options without secrets, and whether it can be reached.
    """
    from rivet_dagster.cli.profile_command import list_catalogs

    return list_catalogs(root, profile, as_json=format == "json")


@catalog.command("describe", example="rivet-dagster catalog describe lake")
@click.argument("name")
@with_format("text", "json")
@with_project
def describe_catalog(root: Path, profile: str | None, name: str, format: str) -> int:
    """Show one catalog, what it can do, and who uses it."""
    from rivet_dagster.cli.profile_command import describe_catalog

    return describe_catalog(root, profile, name, as_json=format == "json")


@catalog.command("create", example=CREATE_CATALOG_EXAMPLE)
@click.argument("name")
@click.option("--type", "type_", required=True, metavar="TYPE", help="The type of the catalog.")
@_option
@with_project
def create_catalog(root: Path, profile: str | None, name: str, type_: str, options: tuple[str, ...]) -> int:
    """Write a catalog into the profile.

    All else in the file stays as it is.
    """
    from rivet_dagster.cli.profile_command import create_catalog

    return create_catalog(root, profile, name, type_, options)


@click.group("engine", cls=KnownCommands)
def engine() -> None:
    """Show and add engines."""


@engine.command("list", example="rivet-dagster engine list")
@with_format("text", "json")
@with_project
def list_engines(root: Path, profile: str | None, format: str) -> int:
    """List the engines of the profile.

    Tells of each its type, its options without secrets, and whether it can start; none is started.
    """
    from rivet_dagster.cli.profile_command import list_engines

    return list_engines(root, profile, as_json=format == "json")


@engine.command("create", example=CREATE_ENGINE_EXAMPLE)
@click.argument("name")
@click.option("--type", "type_", required=True, metavar="TYPE", help="The type of the engine.")
@click.option("--catalogs", metavar="A,B", help="The catalogs that it reaches.")
@_option
@with_project
def create_engine(
    root: Path, profile: str | None, name: str, type_: str, catalogs: str | None, options: tuple[str, ...]
) -> int:
    """Write an engine into the profile.

    All else in the file stays as it is.
    """
    from rivet_dagster.cli.profile_command import create_engine

    return create_engine(root, profile, name, type_, catalogs, options)
