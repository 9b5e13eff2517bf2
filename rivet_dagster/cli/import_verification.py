"""``import dbt --verify``: the new project runs in an environment, and its tables are compared with those of dbt.

Here is the run, with the metastore that has dbt's tables, and how the verdicts are printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from rivet_dagster.cli.console import print_plain, reserve_stdout, show, show_changes
from rivet_dagster.cli.difference_command import table_json
from rivet_dagster.cli.difference_text import difference_lines
from rivet_dagster.cli.run.command import start_early
from rivet_dagster.cli.run.selection import RunRequest
from rivet_dagster.cli.screen import screen_on
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.dbt.declared import DbtProject
from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.relations import DbtMetastore, find_metastore, relations_of
from rivet_dagster.dbt.report import Report
from rivet_dagster.dbt.values import ImportEnvironment
from rivet_dagster.dbt.verification import (
    DIFFERS,
    EQUAL,
    FAILED,
    MISSING,
    NOT_COMPARED,
    TableVerdict,
    compare_with_dbt,
    reach_metastore,
    runnable_groups,
)
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.loading import compile_directory

ENVIRONMENT = "dbt-verify"
"""The environment in which the new project runs: nobody who reads its tables sees anything of it."""


@dataclass(frozen=True)
class VerifiedTarget:
    """A dbt project as one of its targets has it, and the metastore that has the tables of that target."""

    directory: Path
    project: DbtProject
    metastore: DbtMetastore


@dataclass(frozen=True)
class Verification:
    """The verdicts on all tables of a target."""

    target: str
    verdicts: tuple[TableVerdict, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all tables have been compared, and are equal."""
        return all(verdict.verdict == EQUAL for verdict in self.verdicts)


def verified_target(directory: Path, output: str) -> VerifiedTarget:
    """Return a target of a dbt project. Raises RVT-141, RVT-142, RVT-145, and RVT-146 if Spark cannot read it."""
    directory = directory.absolute()
    project = read_dbt_project(directory, ImportEnvironment(os.environ), output)
    return VerifiedTarget(directory, project, find_metastore(project.target, directory, os.environ))


def verify_import(verified: VerifiedTarget, report: Report, root: Path) -> Verification:
    """Run the project in ``root``, which was imported with this ``report``, and compare its tables with dbt's.

    dbt's tables are only read, and nothing is published outside of the environment.
    """
    root = root.resolve()
    relations = relations_of(verified.project, report, verified.directory)
    with reserve_stdout(), _readable(verified.metastore) as metastore:
        plan = reach_metastore(compile_directory(root, "default").raise_errors(), metastore)
        unpublished = _run(plan, root)
        runtime = Runtime(plan, root, environment=ENVIRONMENT)
        verdicts = compare_with_dbt(runtime, relations, metastore, unpublished)
    return Verification(verified.project.target.name, verdicts)


@contextmanager
def _readable(metastore: DbtMetastore) -> Iterator[DbtMetastore]:
    """Yield the metastore, of an embedded one a copy: opening it would write to it, and lock out dbt."""
    if metastore.embedded is None:
        yield metastore
        return
    with tempfile.TemporaryDirectory(prefix="rivet-dbt-", ignore_cleanup_errors=True) as folder:
        copy = shutil.copytree(metastore.embedded, Path(folder) / metastore.embedded.name)
        for lock in copy.glob("*.lck"):
            lock.unlink()
        yield replace(metastore, options={**metastore.options, "metastore": str(copy)})


def _run(plan: CompiledAssembly, root: Path) -> Mapping[str, str]:
    """Run the project in the environment, and return why groups have published nothing there."""
    groups = runnable_groups(plan)
    if not groups:
        return {}
    with closing(screen_on(sys.stderr)) as screen:
        start_early(plan, root)
        from rivet_dagster.cli.run.dagster_run import materialize

        request = RunRequest(joints=groups, no_fail_fast=True, environment=ENVIRONMENT)
        report = materialize(request, plan, root, screen, ENVIRONMENT)
    from rivet_dagster.cli.run.report import CANCELED, SUCCESS

    if any(group.status == CANCELED for group in report.groups):
        raise KeyboardInterrupt
    reasons = {}
    for group in report.groups:
        joints = plan.group(group.name).joints
        errors = [f"{each.message} ({each.code})" for each in report.errors if each.joint in joints]
        gates = [each.check for each in report.checks if each.joint in joints and not each.passed and _is_gate(each)]
        gated = [f"nothing was published, as the check {', '.join(gates)} failed"] if gates else []
        if group.status != SUCCESS:
            reasons[group.name] = "; ".join([*errors, *gated]) or "it did not run: what it reads was not published"
    return reasons


def _is_gate(check: Any) -> bool:
    return bool(check.severity == "error")


def verification_json(verification: Verification) -> dict[str, Any]:
    """Return the verdicts as ``import dbt --verify --format json`` prints them."""
    tables = [_table(verdict) for verdict in verification.verdicts]
    return {"target": verification.target, "environment": ENVIRONMENT, "tables": tables}


def _table(verdict: TableVerdict) -> dict[str, Any]:
    relation, difference = verdict.relation, verdict.difference
    table: dict[str, Any] = {"name": relation.name, "kind": relation.kind, "joint": verdict.joint}
    table |= {"dbt": str(relation) or None, "verdict": verdict.verdict, "reasons": list(verdict.reasons)}
    if difference is None:
        return table
    counted = {"rows_in_dbt": difference.rows_before, "rows_here": difference.rows_after}
    compared = {key: value for key, value in table_json(difference).items() if key in _COMPARED}
    return table | counted | compared


_COMPARED = ("schema", "rows", "columns", "samples")
_STYLES = {EQUAL: "green", DIFFERS: "bold red", MISSING: "bold red", FAILED: "bold red", NOT_COMPARED: "yellow"}
_TEXTS = {NOT_COMPARED: "not compared", MISSING: "missing in dbt"}


def show_verification(verification: Verification, root: Path) -> None:
    """Print the table of verdicts, what differs, and where the rows are."""
    verdicts = verification.verdicts
    equal = sum(verdict.verdict == EQUAL for verdict in verdicts)
    click.echo(click.style(f"\nverified: {equal} of {len(verdicts)} tables equal those of dbt's ", bold=True), nl=False)
    click.echo(click.style(f"target {verification.target}", bold=True))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for title in ("name", "in dbt", "verdict"):
        table.add_column(title, overflow="fold")
    table.add_column("rows", justify="right")
    table.add_column("", overflow="fold")
    for verdict in verdicts:
        style = _STYLES[verdict.verdict]
        text = _TEXTS.get(verdict.verdict, verdict.verdict)
        rows = "" if verdict.difference is None else f"{verdict.difference.rows_before or 0:,}"
        table.add_row(verdict.relation.name, str(verdict.relation), Text(text, style), rows, "; ".join(verdict.reasons))
    show(table)
    for verdict in verdicts:
        if verdict.verdict == DIFFERS and verdict.difference is not None:
            print_plain(f"\n{verdict.joint}: differs from {verdict.relation}")
            show_changes("\n".join(difference_lines(verdict.difference, "in dbt", "here")))
    click.echo(
        f"\nthe rows are in the environment {ENVIRONMENT}, which no reader sees: "
        f"`rivet-dagster -p {root} environment drop {ENVIRONMENT}` removes them"
    )
