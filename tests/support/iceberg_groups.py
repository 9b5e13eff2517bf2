"""Runs of one group on an Iceberg catalog, without Dagster and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from support.iceberg_duckdb import session
from support.iceberg_publications import PLUGINS
from support.iceberg_runs import NAMESPACE, TABLE
from support.killing import die_around_a_phase
from support.projects import sink, sql

_CHECK = {"type": "custom", "sql": f"SELECT * FROM {TABLE} WHERE id < 0", "samples": 0}


class GroupRuntime(Runtime):
    """A runtime of a project whose only table has the column ``id``; a gate stops a run with an id below zero."""

    def __init__(self, options: Mapping[str, Any], root: Path, ids: Sequence[int]) -> None:
        catalogs = (
            CatalogSpec("lake", "iceberg", {**options, "default-namespace": NAMESPACE}),
            CatalogSpec("workspace", "filesystem", {"path": ".rivet/workspace"}),
        )
        engines = (EngineSpec("duck", "duckdb", ("lake",)),)
        profile = Profile(name="default", catalogs=catalogs, engines=engines, default_engine="duck")
        rows = sql("numbers", " UNION ALL ".join(f"SELECT {number} AS id" for number in ids))
        joints = (rows, sink(TABLE, "numbers", quality={"assertions": [_CHECK]}))
        super().__init__(compile_project(Project(profile, joints, {}), PLUGINS).raise_errors(), root)
        self._options = options

    def engine(self, name: str) -> Any:
        """Return DuckDB, whose sessions reach the catalog."""
        return SimpleNamespace(session=lambda: session(self.root, lake=self._options))


def run_ids(options: Mapping[str, Any], root: Path, ids: Sequence[int], identity: str) -> GroupResult:
    """Replace the rows of the table, unless the gate stops it."""
    return run_group(GroupRuntime(options, root, ids), TABLE, ["numbers", TABLE], identity)


def run_ids_killed_around_a_phase(
    options: Mapping[str, Any], root: Path, ids: Sequence[int], identity: str, phase: str, moment: str
) -> None:
    """Run, and die ``before`` or ``after`` one of the phases."""
    die_around_a_phase(phase, moment)
    run_ids(options, root, ids, identity)
