"""The commands of the machine: ``doctor``, ``spark``, ``completion``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class, shell_complete

from rivet_dagster.cli.commands.parameters import ExampleCommand, KnownCommands, with_format, with_project

PROGRAM = "rivet-dagster"
_ASKED = "_RIVET_DAGSTER_COMPLETE"

_FIRST_CALL, _EACH_CALL = "== loadautofunc ]]", "== (loadautofunc|shfunc) ]]"
"""How click's script for zsh finds out that a file of $fpath is called, which is true of the first call alone."""


def completion_script(program: click.Command, shell: str) -> str:
    """Return the script that registers completion in a shell: bash, zsh or fish."""
    class_ = get_completion_class(shell)
    assert class_ is not None, "the command's argument is one of the known shells"
    completion = class_(program, {}, PROGRAM, _ASKED)
    # `source()` of bash would start the bash of this machine, which need not be that of the reader.
    script = completion.source_template % completion.source_vars()
    return script.replace(_FIRST_CALL, _EACH_CALL) if shell == "zsh" else script


def answer_shell(program: click.Command, environ: Mapping[str, str] = os.environ) -> bool:
    """Print the completions that a script asks for by the environment; return whether one does."""
    asked = environ.get(_ASKED)
    return asked is not None and shell_complete(program, {}, PROGRAM, _ASKED, asked) == 0


COMPLETION_EXAMPLE = """
rivet-dagster completion bash > ~/.local/share/bash-completion/completions/rivet-dagster
rivet-dagster completion zsh > ~/.zfunc/_rivet-dagster
rivet-dagster completion fish > ~/.config/fish/completions/rivet-dagster.fish
"""


@click.command("doctor", cls=ExampleCommand, example="rivet-dagster doctor")
@with_format("text", "json")
@with_project
def doctor(root: Path, profile: str | None, format: str) -> int:
    """Examine machine, project and storage.

    Tells whether they, and Dagster, are fit for runs.
    """
    from rivet_dagster.cli.doctor_command import examine_all

    return examine_all(root, profile, as_json=format == "json")


@click.group("spark", cls=KnownCommands)
def spark() -> None:
    """Start and stop Spark servers; make archives of classes.

    Each engine with `remote: local`, or `sail`, has a server. From an archive Spark starts in half the time.
    """


@spark.command("start", example="rivet-dagster spark start")
@with_project
def start(root: Path, profile: str | None) -> int:
    """Start the server of each engine, and return when it answers."""
    from rivet_dagster.cli.spark_command import start, with_each_server

    return with_each_server(root, profile, start)


@spark.command("stop", example="rivet-dagster spark stop")
@with_project
def stop(root: Path, profile: str | None) -> int:
    """Stop the server of each engine."""
    from rivet_dagster.cli.spark_command import stop, with_each_server

    return with_each_server(root, profile, stop)


@spark.command("status", example="rivet-dagster spark status")
@with_project
def status(root: Path, profile: str | None) -> int:
    """Tell the pid, the address and the log of each server that runs."""
    from rivet_dagster.cli.spark_command import status, with_each_server

    return with_each_server(root, profile, status)


@spark.command("archive", example="rivet-dagster spark archive --to /opt/class-archives")
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="The folder that the archive is made in.")
@with_project
def archive(root: Path, profile: str | None, to: Path | None) -> int:
    """Make the archive of classes from which Spark starts faster.

    Without a project it is made for Spark alone, without packages and jars.
    """
    from rivet_dagster.cli.spark_command import make_archives

    return make_archives(root, profile, to)


@click.command("completion", cls=ExampleCommand, example=COMPLETION_EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a shell's completion script.

    By it the shell completes commands, options and names of joints.
    """

    click.echo(completion_script(context.find_root().command, shell))
    return 0
