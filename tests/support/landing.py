"""Two tables that read one landing zone, on an engine that needs no start; a file is a list of whole numbers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.registry import traits_of
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.plugins import EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection
from support.projects import sink, source
from support.standin import write_as_spark_does

READERS = ("first", "second")
MAX_VERSIONS = 1000


def plan(archive: bool = True, on_empty: str = "write") -> CompiledAssembly:
    """Return the plan of two tables with the rows of the zone ``lake/zone``; all their versions are retained."""
    profile = Profile(
        "default",
        (CatalogSpec("lake", "filesystem", {"path": "lake", "versions": MAX_VERSIONS}),),
        (EngineSpec("spark", "pyspark", ("lake",)),),
        "spark",
        "lake",
    )
    strategy = {"mode": "replace", "on_empty": on_empty}
    zone = source("zone", options={"landing": True, "archive": archive, "format": "csv"})
    joints = (zone, *(sink(name, "zone", write_strategy=strategy) for name in READERS))
    plugins = Plugins({"filesystem": traits_of(FilesystemCatalog)}, {"pyspark": EngineTraits(frozenset())})
    return compile_project(Project(profile, joints, {}), plugins).raise_errors()


class Session:
    """A session that reads files when they are written to a table, like Spark, and not before."""

    def __init__(self, before_write: Callable[[], None]) -> None:
        self._before_write = before_write
        self._frames: dict[str, Any] = {}

    def load(self, relation: Files, projection: Projection | None = None) -> Files:
        """Return the relation of the files."""
        assert relation.paths or "schema" in relation.options
        return relation

    def columns(self, frame: Files) -> tuple[tuple[str, str], ...]:
        """Return the one column."""
        return (("id", "bigint"),)

    def schema(self, frame: Files) -> str:
        """Return the one column as DDL."""
        return "id BIGINT"

    def register(self, name: str, frame: Files) -> None:
        """Store the frame by name."""
        self._frames[name] = frame

    def views(self) -> AbstractContextManager[None]:
        """Do nothing: each name is registered once."""
        return nullcontext()

    def query(self, text: str, parameters: Mapping[str, Any] | None = None) -> Files:
        """Return all rows of the only registered relation."""
        (frame,) = self._frames.values()
        return frame

    def explain(self, frame: Any) -> Callable[[], QueryPlan]:
        """Return a fixed name."""
        return lambda: QueryPlan("stand-in")

    def write(self, frame: Files, target: Files, progress: Any = None, split_by: Any = ()) -> None:
        """Write the numbers of all files."""
        self._before_write()
        numbers = [int(number) for path in frame.paths for number in Path(path).read_text().split()]
        write_as_spark_does(numbers, Path(target.paths[0]))

    def close(self) -> None:
        """Do nothing."""


class ZoneRuntime(Runtime):
    """A runtime of the tables; ``before_write`` is called between listing the files and reading them."""

    def __init__(self, root: Path, assembly: CompiledAssembly, before_write: Callable[[], None]) -> None:
        super().__init__(assembly, root)
        self._before_write = before_write

    def engine(self, name: str) -> Any:
        """Return itself."""
        return self

    def session(self) -> Session:
        """Return a session."""
        return Session(self._before_write)


def read(
    root: Path,
    table: str = "first",
    identity: str | None = None,
    assembly: CompiledAssembly | None = None,
    before_write: Callable[[], None] = lambda: None,
) -> GroupResult:
    """Run a table, which reads the files that are new to it."""
    runtime = ZoneRuntime(root, assembly or plan(), before_write)
    group = runtime.assembly.group(table)
    return run_group(runtime, table, group.joints, identity or str(uuid.uuid4()))


def put(root: Path, name: str, *numbers: int) -> None:
    """Rename a file into the zone; each has another modification time."""
    path = root / "lake/zone" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    coming = path.parent / f".{path.name}"
    coming.write_text(" ".join(map(str, numbers)))
    os.utime(coming, ns=(0, uuid.uuid4().int % 10**18))
    coming.rename(path)


def catalog(root: Path) -> FilesystemCatalog:
    """Return the catalog of the tables."""
    return FilesystemCatalog(CatalogSpec("lake", "filesystem", {"path": "lake", "versions": MAX_VERSIONS}), root)


def rows(root: Path, table: str = "first") -> list[int]:
    """Return the rows of a table as a Parquet reader sees them."""
    return sorted(pq.read_table(root / "lake" / table)["id"].to_pylist())


def rows_ever(root: Path, table: str = "first") -> list[int]:
    """Return the rows of all versions, which a table would have that appends each batch."""
    home = root / "lake/.rivet" / table
    found: list[int] = []
    with suppress(FileNotFoundError):
        for version in catalog(root).versions(table):
            found += pq.read_table(home / version.name)["id"].to_pylist()
    return sorted(found)


def zone_files(root: Path) -> dict[str, str]:
    """Return the texts of the files in the zone by name, without the archive."""
    zone = root / "lake/zone"
    found = (path for path in zone.rglob("*") if path.is_file() and "_archive" not in path.parts)
    return {str(path.relative_to(zone)): path.read_text() for path in found}


def archived(root: Path) -> dict[str, str]:
    """Return the texts of the archived files by name, without the folders of the versions."""
    zone = root / "lake/zone"
    found = (path for path in zone.rglob("_archive/*/*") if path.is_file())
    return {str((path.parents[2] / path.name).relative_to(zone)): path.read_text() for path in found}
