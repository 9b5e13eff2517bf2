"""``rivet-dagster run``: a real Dagster run in this process."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import uuid
import warnings
from pathlib import Path

import dagster as dg

from rivet_dagster.cli.report_text import progress_line, report_text
from rivet_dagster.cli.run_report import RunReport, read_report
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.translator import DagsterRivetTranslator
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.joint import SOURCE

JOB = "rivet_dagster_run"


def run_command(options: argparse.Namespace) -> int:
    """Materialize what was asked for and report it; the exit code says how it went."""
    warnings.filterwarnings("ignore", module="dagster")
    root = Path(options.project).resolve()
    assembly = compile_directory(root, options.profile).raise_errors()
    report = _run(assembly, root, _selection(options, assembly), fail_fast=not options.no_fail_fast)
    if options.format == "json":
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        print(report_text(report, assembly, root), file=sys.stderr)
    return report.exit_code


def _run(assembly: CompiledAssembly, root: Path, selection: dg.AssetSelection, fail_fast: bool) -> RunReport:
    definitions = dg.Definitions.merge(
        build_definitions(assembly, root, DagsterRivetTranslator()),
        dg.Definitions(jobs=[dg.define_asset_job(JOB, selection)], loggers={"progress": _progress_logger()}),
    )
    try:
        job = definitions.get_job_def(JOB)
    except dg.DagsterInvalidDefinitionError as error:
        raise RivetError("RVT-306", f"the selection names no joint: {error}") from error
    run_id = str(uuid.uuid4())
    with dg.DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else dg.DagsterInstance.ephemeral() as instance:
        success = False
        try:
            result = job.execute_in_process(
                instance=instance,
                run_id=run_id,
                raise_on_error=fail_fast,
                run_config={"loggers": {"progress": {"config": {}}}},
            )
            success = result.success
        except (dg.Failure, dg.DagsterError):
            # Raised to stop at the first failed step; the run's events say which, and why.
            if instance.get_run_by_id(run_id) is None:
                raise
        entries = instance.all_logs(run_id)
        events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
        return read_report(events, run_id, success, assembly)


def _selection(options: argparse.Namespace, assembly: CompiledAssembly) -> dg.AssetSelection:
    translator = DagsterRivetTranslator()
    if not options.joints and options.select is None:
        wanted = [joint.name for joint in assembly.joints]
    else:
        wanted = [name for text in options.joints for name in _joints_of(text, assembly)]
    made = [assembly.joint(name) for name in wanted if assembly.joint(name).type != SOURCE]
    selection: dg.AssetSelection = dg.AssetSelection.assets(
        *[translator.get_asset_key(joint, assembly) for joint in made]
    )
    if options.select is not None:
        selection = selection | dg.AssetSelection.from_string(options.select)
    return selection


def _joints_of(text: str, assembly: CompiledAssembly) -> list[str]:
    """The joints of the named joint's group, and with a leading + those of all groups before it."""
    name = text.removeprefix("+")
    known = [joint.name for joint in assembly.joints]
    if name not in known:
        raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")
    groups = [assembly.joint(name).group]
    if text.startswith("+"):
        for group in groups:  # grows while it is walked
            for joint in assembly.group(group).inputs:
                if assembly.joint(joint).group not in groups:
                    groups.append(assembly.joint(joint).group)
    return [joint for group in groups for joint in assembly.group(group).joints]


def _progress_logger() -> dg.LoggerDefinition:
    """Dagster's events as one line a step, on stderr, instead of its own log."""

    @dg.logger
    def progress(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("rivet_dagster.progress", logging.DEBUG)
        logger.addHandler(_ProgressHandler())
        return logger

    return progress


class _ProgressHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = progress_line(getattr(record, "dagster_meta", {}).get("dagster_event"))
        if line:
            print(line, file=sys.stderr, flush=True)
