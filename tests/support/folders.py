"""Projects on disk that are really run: a few small files, and the results of runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from rivet_dagster import compile_directory
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window
from support.spark import on_sail, share_sail, where

MANIFEST = {"profiles": "profiles.yaml", "sources": "sources", "joints": "joints", "sinks": "sinks"}
GOES_ON = {"rivet.yaml": {**MANIFEST, "fail_fast": False}}
"""A manifest with which a run skips only what depends on a failure."""
PROFILES = {
    "default": {
        "catalogs": {
            "raw": {"type": "filesystem", "path": "data", "format": "csv"},
            "lake": {"type": "filesystem", "path": "lake"},
        },
        "engines": [
            {
                "name": "spark",
                "type": "pyspark",
                "catalogs": ["raw", "lake"],
                **where(),
                "config": {} if on_sail() else {"spark.sql.shuffle.partitions": 2},
            }
        ],
    }
}
WORKSPACE = ".rivet/workspace"
"""The folder of joints stored between groups, relative to the project."""

Files = Mapping[str, str | bytes | Mapping[str, Any]]


class ProjectFolder:
    """A project in a folder; contents other than text are written as YAML."""

    def __init__(self, root: Path, files: Files) -> None:
        self.root = root
        if on_sail():
            share_sail(root)
        for folder in ("sources", "joints", "sinks", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.write({"rivet.yaml": MANIFEST, "profiles.yaml": PROFILES, **files})

    def write(self, files: Files) -> ProjectFolder:
        """Add or replace files and reset the plan."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Mapping):
                content = yaml.safe_dump(dict(content), sort_keys=False)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.__dict__.pop("assembly", None)
        return self

    @cached_property
    def assembly(self) -> CompiledAssembly:
        """Compile the files."""
        return compile_directory(self.root).raise_errors()

    @property
    def runtime(self) -> Runtime:
        """Return a new runtime, like that of another process."""
        return Runtime(self.assembly, self.root)

    def run(
        self,
        group: str,
        selected: Iterable[str] | None = None,
        given: Mapping[str, MaterializedRef] | None = None,
        unjudged_sources: Iterable[str] = (),
        identity: str | None = None,
        window: Window | None = None,
        full_refresh: bool = False,
    ) -> GroupResult:
        """Run a group, or the selected joints of it, each time with another identity."""
        chosen = self.assembly.group(group).joints if selected is None else selected
        name = identity or f"{uuid4()}/{group}"
        return run_group(self.runtime, group, chosen, name, given, unjudged_sources, window, full_refresh)

    def run_all(self) -> dict[str, GroupResult]:
        """Run every group in the plan's order."""
        plan = self.assembly
        return {name: self.run(name) for name in plan.execution_order if plan.joint(name).type != "source"}

    def table(self, name: str, catalog: str = "lake") -> pa.Table:
        """Return a published table as a Parquet reader sees it."""
        return pq.read_table(self.root / catalog / name)

    def rows(self, name: str, catalog: str = "lake") -> list[dict[str, Any]]:
        """Return the rows of a published table, in the order of their values."""
        return in_order(self.table(name, catalog).to_pylist())

    def bytes_of(self, name: str, catalog: str = "lake") -> dict[str, bytes]:
        """Return all files of a published table by the path that readers open."""
        link = self.root / catalog / name
        return {f"{os.readlink(link)}/{path.name}": path.read_bytes() for path in sorted(link.iterdir())}

    def versions(self, name: str, catalog: str = "lake") -> list[str]:
        """Return all folders and manifests of a table, published or not."""
        home = self.root / catalog / ".rivet" / name
        names = [path.name for path in home.iterdir()] if home.is_dir() else []
        return sorted(name for name in names if name not in ("lock", "publishers.jsonl"))


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in the order of their values, NULLs first."""
    return sorted((dict(row) for row in rows), key=lambda row: [(v is not None, str(v)) for v in row.values()])


def source(table: str, schema: str, **fields: Any) -> dict[str, Any]:
    """Return a source on a CSV file with typed columns."""
    options = {"schema": schema, **fields.pop("options", {})}
    return {"type": "source", "catalog": "raw", "table": table, "options": options, **fields}


def sink(table: str, *upstream: str, assertions: Iterable[Mapping[str, Any]] = (), **fields: Any) -> dict[str, Any]:
    """Return a sink with these checks."""
    quality = {"quality": {"assertions": [dict(check) for check in assertions]}} if assertions else {}
    return {"type": "sink", "catalog": "lake", "table": table, "upstream": list(upstream), **quality, **fields}
