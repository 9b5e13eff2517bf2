"""``rivet-dagster``: the program, its exit codes, and how it tells errors."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise

import click

from rivet_dagster.cli.commands.machine import PROGRAM, answer_shell, completion, doctor, spark
from rivet_dagster.cli.commands.parameters import KnownCommands, project_options
from rivet_dagster.cli.commands.planning import compile_, import_, init, lineage, schema
from rivet_dagster.cli.commands.profiles import catalog, engine
from rivet_dagster.cli.commands.running import run, show, test
from rivet_dagster.cli.commands.storage import adopt, diff, environment, sweep, upkeep, versions, watermark
from rivet_dagster.cli.console import (
    FAILURE,
    INTERRUPTED,
    discard_output,
    has_colors,
    open_closed_streams,
    readers_are_gone,
    show_diagnostics,
)
from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.redaction import redacted
from rivet_dagster.version import __version__

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


@click.group(PROGRAM, cls=KnownCommands, context_settings=SETTINGS)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@project_options
def program(**_: object) -> None:
    """SQL pipelines on Spark with Dagster."""


COMMANDS = (
    init,
    compile_,
    run,
    show,
    test,
    lineage,
    import_,
    versions,
    watermark,
    environment,
    diff,
    sweep,
    upkeep,
    adopt,
    catalog,
    engine,
    spark,
    doctor,
    schema,
    completion,
)
for _command in COMMANDS:
    program.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Output for programs (JSON, the compiled plan) goes to stdout, everything else to stderr.
    """
    open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json, verbose = _wants_json(arguments), "--verbose" in arguments
    try:
        code = _called(arguments, as_json, verbose)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        if as_json:
            print(json.dumps({"success": False, "errors": []}, indent=2))
        return INTERRUPTED
    except BrokenPipeError as error:
        if readers_are_gone():
            discard_output()
        else:
            _show_defect(error, as_json, verbose)
        return FAILURE


def _called(arguments: Sequence[str], as_json: bool, verbose: bool) -> int:
    try:
        if answer_shell(program):
            return 0
        plain = None if has_colors(sys.stdout) else False
        with program.make_context(PROGRAM, list(arguments), color=plain) as context:
            return int(program.invoke(context) or 0)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        context_ = getattr(error, "ctx", None)
        remedy = f"See `{context_.command_path} --help`." if context_ is not None else None
        wrong = RivetError("RVT-110", error.format_message().rstrip("."), remediation=remedy)
        _show(wrong, as_json, verbose)
        return wrong.exit_code
    except RivetError as error:
        _show(error, as_json, verbose)
        return error.exit_code
    except BrokenPipeError:
        raise
    except Exception as error:
        _show_defect(error, as_json, verbose)
        return FAILURE


def _show_defect(error: Exception, as_json: bool, verbose: bool) -> None:
    _show(RivetError("RVT-599", f"{type(error).__name__}: {error}"), as_json, verbose, error)


def _show(error: RivetError, as_json: bool, verbose: bool, cause: BaseException | None = None) -> None:
    if verbose:
        print(redacted("".join(traceback.format_exception(cause or error))), file=sys.stderr, end="")
    if as_json:
        print(json.dumps({"success": False, "errors": [d.to_dict() for d in error.diagnostics]}, indent=2))
    else:
        show_diagnostics(error.diagnostics)


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)
