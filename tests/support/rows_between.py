"""Projects with a landing zone and stored joints between it and the tables; DuckDB computes the rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.parquet as pq

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.registry import traits_of
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.relations import CatalogTable, Files, Relation
from rivet_dagster.model.storage import Projection
from support.iceberg_duckdb import IcebergDuckDB, session
from support.projects import source, sql
from support.tables import refused

ZONE = source("zone", catalog="raw", options={"landing": True, "schema": "n BIGINT", "format": "parquet"})
NUMBERS = source("numbers", catalog="raw", table="zone", options={"format": "parquet"})
ARCHIVED = source("zone", catalog="raw", options={**ZONE.options, "archive": True})
NEW = sql("new", "SELECT n FROM zone", eager=True)


class Session(IcebergDuckDB):
    """A session that also reads no files at all."""

    def load(self, relation: Relation, projection: Projection | None = None) -> str:
        """Read the rows; without files those of the one column."""
        if isinstance(relation, Files) and not relation.paths:
            return self.query("SELECT CAST(NULL AS BIGINT) AS n WHERE FALSE")
        return super().load(relation, projection)


class DuckRuntime(Runtime):
    """A runtime whose engine is DuckDB; ``lakes`` are the options of Iceberg catalogs."""

    lakes: Mapping[str, Any]

    def engine(self, name: str) -> Any:
        """Return an engine for sessions."""
        return SimpleNamespace(session=lambda: Session(session(self.root, **self.lakes)._lakes))


class Shop:
    """A project with a landing zone, and tables in the catalog ``lake``."""

    def __init__(
        self, root: Path, *joints: Joint, environment: str | None = None, iceberg: Any = None, **options: Any
    ) -> None:
        self.root = root
        lake = CatalogSpec("lake", "filesystem", {"path": "lake", "versions": 9, **options})
        if iceberg is not None:
            lake = CatalogSpec("lake", "iceberg", {**iceberg, "default-namespace": "shop", **options})
        folders = [CatalogSpec(name, "filesystem", {"path": path}) for name, path in FOLDERS.items()]
        engines = (EngineSpec("duck", "duckdb", ("raw", "lake")),)
        profile = Profile("default", (lake, *folders), engines, "duck")
        kinds = frozenset({Files, CatalogTable})
        plugins = Plugins(
            {"filesystem": traits_of(FilesystemCatalog), "iceberg": traits_of(IcebergCatalog)},
            {"duckdb": EngineTraits(frozenset(), reads=kinds, writes=kinds)},
        )
        self.plan = compile_project(Project(profile, joints, {}), plugins).raise_errors()
        self.runtime = DuckRuntime(self.plan, root, environment=environment)
        self.runtime.lakes = {"lake": iceberg} if iceberg is not None else {}

    def put(self, name: str, *numbers: int) -> None:
        """Put a file into the zone."""
        folder = self.root / "raw/zone"
        folder.mkdir(parents=True, exist_ok=True)
        values = ", ".join(f"({number}::BIGINT)" for number in numbers)
        duckdb.sql(f"SELECT * FROM (VALUES {values}) AS t(n)").write_parquet(str(folder / name))

    def run(self, *groups: str, **options: Any) -> GroupResult:
        """Run groups, each as a run of its own, and return the result of the last."""
        for name in groups:
            group = self.plan.group(name)
            result = run_group(self.runtime, name, group.joints, str(uuid.uuid4()), **options)
        return result

    def code(self, *groups: str, **options: Any) -> str:
        """Run groups, and return the code of the error."""
        return refused(self.run, *groups, **options).code

    def rows(self, table: str = "out") -> list[int]:
        """Return the rows of a published table of files."""
        return sorted(pq.read_table(self.root / "lake" / table)["n"].to_pylist())

    def zone(self) -> list[str]:
        """Return the files in the zone."""
        return sorted(path.name for path in (self.root / "raw/zone").glob("*.parquet"))


FOLDERS = {"raw": "raw", "workspace": ".rivet/workspace"}
