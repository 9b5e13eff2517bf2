"""``rivet-dagster``: the commands and their exit codes."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from rivet_dagster import __version__
from rivet_dagster.errors import RivetError
from rivet_dagster.redaction import redacted

OK, FAILURE, USAGE, INTERRUPTED = 0, 1, 10, 130

ENVIRONMENT_EXAMPLE = """\
example:
  rivet-dagster run --environment pr-7 --changed
  rivet-dagster environment list
  rivet-dagster environment merge pr-7
"""

DIFF_EXAMPLE = """\
example:
  rivet-dagster diff --environment pr-7
  rivet-dagster diff orders --environment pr-7 --format markdown
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RivetError("RVT-110", message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Output for programs (JSON, the compiled plan) goes to stdout, everything else to stderr.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = _wants_json(arguments)
    verbose = "--verbose" in arguments
    try:
        options = _parser().parse_args(arguments)
        if options.command == "compile":
            from rivet_dagster.cli.compile_command import compile_command

            return compile_command(options)
        if options.command == "sweep":
            from rivet_dagster.cli.sweep_command import sweep_command

            return sweep_command(options)
        if options.command == "upkeep":
            from rivet_dagster.cli.upkeep_command import upkeep_command

            return upkeep_command(options)
        if options.command == "versions":
            from rivet_dagster.cli.versions_command import versions_command

            return versions_command(options)
        if options.command == "watermark":
            from rivet_dagster.cli.watermark_command import watermark_command

            return watermark_command(options)
        if options.command == "environment":
            from rivet_dagster.cli.environment_command import environment_command

            return environment_command(options)
        if options.command == "diff":
            from rivet_dagster.cli.difference.command import diff_command

            return diff_command(options)
        if options.command == "spark":
            from rivet_dagster.cli.spark_command import spark_command

            return spark_command(options)
        if options.command == "doctor":
            from rivet_dagster.cli.doctor.command import doctor_command

            return doctor_command(options)
        # SIGTERM is handled like SIGINT, so that a run asked to end discards what it staged.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        from rivet_dagster.cli.run_command import run_command

        return run_command(options)
    except RivetError as error:
        _show(error, as_json, verbose)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILURE
    except Exception as error:
        defect = RivetError("RVT-599", f"{type(error).__name__}: {error}")
        _show(defect, as_json, verbose, error)
        return FAILURE


def _show(error: RivetError, as_json: bool, verbose: bool, cause: BaseException | None = None) -> None:
    if verbose:
        print(redacted("".join(traceback.format_exception(cause or error))), file=sys.stderr, end="")
    if as_json:
        print(json.dumps({"success": False, "errors": [d.to_dict() for d in error.diagnostics]}, indent=2))
    else:
        print(error, file=sys.stderr)


def _wants_json(arguments: Sequence[str]) -> bool:
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(a == "--format=json" or (a == "--format" and b == "json") for a, b in pairs)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rivet-dagster", description="SQL pipelines on Spark with Dagster.")
    parser.add_argument("--version", action="version", version=f"rivet-dagster {__version__}")
    parser.set_defaults(project=".", profile=None, verbose=False)
    _add_globals(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    compiling = commands.add_parser("compile", help="show the plan; no data is read, nothing is run")
    compiling.add_argument("joints", nargs="*", metavar="JOINT", help="show only these joints and their groups")
    compiling.add_argument("--format", choices=("visual", "json", "mermaid"), default="visual")
    compiling.add_argument("--introspect", action="store_true", help="ask the catalogs for the columns of the sources")
    compiling.add_argument("--diff", metavar="OLD.json", help="show what differs from a plan of `--format json`")
    _add_globals(compiling)

    running = commands.add_parser("run", help="materialize joints in a Dagster run of this process")
    running.add_argument("joints", nargs="*", metavar="[+]JOINT", help="run its group; with + what it needs, too")
    running.add_argument("--select", metavar="SELECTION", help="assets in Dagster's own selection syntax")
    covering = running.add_mutually_exclusive_group()
    covering.add_argument("--partition", metavar="KEY", help="the partition to make")
    covering.add_argument("--partition-range", metavar="A...B", help="the partitions from A to B, in one run")
    running.add_argument(
        "--changed",
        action="store_true",
        help="only what is not as the base was made: changed itself, or upstream of it",
    )
    running.add_argument("--no-fail-fast", action="store_true", help="go on with what does not need a failed group")
    running.add_argument("--format", choices=("text", "json"), default="text")
    _add_environment(running)
    _add_globals(running)

    examining = commands.add_parser("doctor", help="whether machine, project, storage and Dagster are fit for runs")
    _add_globals(examining)

    spark = commands.add_parser("spark", help="the Spark server of engines with `remote: local`")
    spark.add_argument("action", choices=("start", "stop", "status"))
    _add_globals(spark)

    sweeping = commands.add_parser("sweep", help="remove the leftovers of dead runs from the catalogs")
    sweeping.add_argument("--upkeep", action="store_true", help="then do the upkeep of the project's tables")
    _add_globals(sweeping)

    upkeep = commands.add_parser("upkeep", help="expire snapshots, remove orphan files, rewrite small files")
    upkeep.add_argument("--catalog", action="append", metavar="NAME", help="only its tables; may be repeated")
    upkeep.add_argument("--format", choices=("text", "json"), default="text")
    _add_globals(upkeep)

    versions = commands.add_parser("versions", help="the versions of a joint's table, and which of them readers see")
    versions.add_argument("action", choices=("list", "rollback", "publish", "drop"))
    versions.add_argument("joint", metavar="JOINT")
    versions.add_argument("version", nargs="?", metavar="VERSION", help="rollback: default the one before")
    _add_environment(versions)
    _add_globals(versions)

    watermark = commands.add_parser("watermark", help="how far sinks have read, and from where the next run reads on")
    watermark.add_argument("action", choices=("list", "set", "reset"))
    watermark.add_argument("sink", nargs="?", metavar="SINK", help="list: default all that have a watermark")
    watermark.add_argument("value", nargs="?", metavar="VALUE", help="set: where the next run reads on")
    _add_environment(watermark)
    _add_globals(watermark)

    environment = commands.add_parser(
        "environment",
        help="branches of the data, on which runs change nothing that readers of the base see",
        epilog=ENVIRONMENT_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    environment.add_argument("action", choices=("list", "create", "merge", "drop"))
    environment.add_argument("name", nargs="?", metavar="NAME", help="create, merge and drop need one")
    environment.add_argument("--format", choices=("text", "json"), default="text", help="of `list`")
    _add_globals(environment)

    diffing = commands.add_parser(
        "diff",
        help="what an environment would change: columns, rows and verdicts of checks",
        epilog=DIFF_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diffing.add_argument("joints", nargs="*", metavar="JOINT", help="only the tables of these joints")
    diffing.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    _add_environment(diffing)
    _add_globals(diffing)
    return parser


def _add_environment(parser: argparse.ArgumentParser) -> None:
    shown = "default: RIVET_ENVIRONMENT, else Dagster's branch deployment, else the base"
    parser.add_argument("--environment", metavar="NAME", help=shown)


def _add_globals(parser: argparse.ArgumentParser) -> None:
    # Accepted before and after the command; only the main parser has the default.
    keep = argparse.SUPPRESS
    parser.add_argument("-p", "--project", metavar="DIR", default=keep, help="the project's directory (default: .)")
    parser.add_argument("--profile", metavar="NAME", default=keep, help="default: RIVET_PROFILE, else `default`")
    parser.add_argument("--verbose", action="store_true", default=keep, help="show the traceback of an error")


if __name__ == "__main__":
    sys.exit(main())
