"""Commands with an example in their help, and the options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rivet_dagster.cli.compiled import VARIABLES
from rivet_dagster.errors import RivetError, nearest

Command = Callable[..., Any]


class ExampleCommand(click.Command):
    """A command whose help ends with an ``example``."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example as it is, without filling its lines."""
        formatter.write_paragraph()
        formatter.write("Example:\n")
        for line in self.example.strip().splitlines():
            formatter.write(f"  {line}\n")


class KnownCommands(click.Group):
    """A group of commands that tells the nearest one for a name that it does not know."""

    command_class = ExampleCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command's name. Raises RVT-110 where nothing is given."""
        if not args and not ctx.resilient_parsing:
            raise RivetError("RVT-110", f"name a command: {', '.join(self.commands)}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of that name. Raises RVT-110."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            path = ctx.command_path.removeprefix(ctx.find_root().command_path).strip()
            what = f"there is no command '{path} {name}'" if path else f"there is no command '{name}'"
            raise RivetError("RVT-110", f"{what}{nearest(name, list(self.commands))}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they were declared."""
        return list(self.commands)


def with_project(command: Command) -> Command:
    """Add ``--project``, ``--profile`` and ``--verbose``, which may also stand before the command's name."""

    @wraps(command)
    def called(project: str | None, profile: str | None, verbose: bool, **others: Any) -> Any:
        root, name = _project(click.get_current_context())
        return command(root=root, profile=name, **others)

    return project_options(called)


def project_options(command: Command) -> Command:
    """Add the options by which all commands find the project, to a command or to the whole program."""
    for option in (
        click.option("--verbose", is_flag=True, help="Show the traceback of an error."),
        click.option("--profile", metavar="NAME", help="Default: RIVET_PROFILE, else `default`."),
        click.option(
            "-p",
            "--project",
            metavar="DIR",
            help="The project's directory. Default: the current one.",
            shell_complete=_directories,
        ),
    ):
        command = option(command)
    return command


def with_engine(command: Command) -> Command:
    """Add ``--engine``."""
    shown = "The engine of all joints: one of the profile, or `sail`. Default: theirs."
    return click.option("--engine", metavar="NAME", help=shown)(command)


def with_environment(command: Command) -> Command:
    """Add ``--environment``."""
    shown = "Default: RIVET_ENVIRONMENT, else Dagster's branch deployment, else the base."
    return click.option("--environment", metavar="NAME", help=shown)(command)


def with_variables(command: Command) -> Command:
    """Add ``--var``, of commands that compile; its values are in the context's ``meta``, under VARIABLES."""
    shown = "A variable of templates, before those of `vars:`; may be repeated."
    return click.option(
        "--var", multiple=True, metavar="NAME=VALUE", help=shown, expose_value=False, callback=_remember_variables
    )(command)


def _remember_variables(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> None:
    if texts:
        from rivet_dagster.project.variables import given_variables

        ctx.meta[VARIABLES] = given_variables(texts)


def with_format(*formats: str) -> Callable[[Command], Command]:
    """Add ``--format``, the first of ``formats`` without it."""
    return click.option("--format", type=click.Choice(formats), default=formats[0], show_default=True)


def joints(command: Command) -> Command:
    """Add the argument JOINT, any number of them."""
    return click.argument("joints", nargs=-1, metavar="[JOINT]...", shell_complete=joint_names)(command)


def joint_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the joints of the project whose names begin like that, for a shell to complete; none without a project."""
    from rivet_dagster.loading import compile_directory

    try:
        assembly = compile_directory(*_project(ctx), recall=True)
    except RivetError:
        return []
    plus = "+" if incomplete.startswith("+") else ""
    names = (f"{plus}{joint.name}" for joint in assembly.joints)
    return [name for name in names if name.startswith(incomplete)]


def _project(ctx: click.Context) -> tuple[Path, str | None]:
    """Return the project's directory and the name of the profile, given behind the command's name or before it."""
    given, before = ctx.params, ctx.find_root().params
    profile = given.get("profile") or before.get("profile")
    return Path(str(given.get("project") or before.get("project") or ".")), profile


def _directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]
