"""Runs that stage two Iceberg tables and publish them in their last step, without Dagster and without a JVM."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests
from pyiceberg.table import StaticTable

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.registry import traits_of
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.publish_run import RunPublication, publish_run
from rivet_dagster.model.plugins import EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.model.write_plan import ReplaceAll, Upsert, WritePlan
from support.iceberg_duckdb import session
from support.iceberg_runs import ERROR_SCHEMA, NAMESPACE, announce
from support.projects import sink, sql

TABLES = ("orders", "totals")
ERRORS = "orders__errors"
_ENGINE = EngineTraits(frozenset(), reads=frozenset({Files, CatalogTable}), writes=frozenset({Files, CatalogTable}))
PLUGINS = Plugins(
    {"iceberg": traits_of(IcebergCatalog), "filesystem": traits_of(FilesystemCatalog)}, {"duckdb": _ENGINE}
)


def runtime(options: Mapping[str, Any], root: Path, *tables: str, environment: str | None = None) -> Runtime:
    """Return the runtime of a project with these sinks, by default two, in the catalog ``lake``."""
    own = {"default-namespace": NAMESPACE, "publish": "run"}
    catalogs = (
        CatalogSpec("lake", "iceberg", {**options, **own}),
        CatalogSpec("folder", "filesystem", {"path": "folder", "publish": "run"}),
        CatalogSpec("workspace", "filesystem", {"path": ".rivet/workspace"}),
    )
    engines = (EngineSpec("duck", "duckdb", ("lake", "folder")),)
    profile = Profile(name="default", catalogs=catalogs, engines=engines, default_engine="duck")
    joints = (sql("n", "SELECT 1 AS id"), *(sink(name, "n") for name in tables or TABLES))
    plan = compile_project(Project(profile, joints, {}), PLUGINS).raise_errors()
    return Runtime(plan, root, environment=environment)


def stage(
    run: Runtime,
    table: str,
    number: int,
    identity: str = "run",
    plan: WritePlan | None = None,
    errors: bool = False,
    adds: bool = False,
) -> StagedResult:
    """Stage a version of a table whose rows have this number; with ``adds`` they have one column more."""
    catalog = run.catalog("lake")
    assert isinstance(catalog, IcebergCatalog)
    engine = session(run.root, lake=catalog.access.options)
    name = f"{identity}/{table}"
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "net": pa.array([number] * 2, pa.int64())})
    rows = rows.append_column("more", rows["net"]) if adds else rows
    with catalog.begin(table, engine) as transaction:
        transaction.write(plan or ReplaceAll(), engine.from_value(rows), WriteContext(identity=name))
        if errors:
            bad = [dict.fromkeys(ERROR_SCHEMA.names, "x") | {"line": 7, "message": str(number), "found_at": None}]
            transaction.write_errors(ERRORS, engine.from_value(pa.Table.from_pylist(bad, ERROR_SCHEMA)))
        version = transaction.stage(name)
    return StagedResult(table, "lake", table, version.version, version.identity)


def stage_all(run: Runtime, number: int, identity: str = "run") -> list[StagedResult]:
    """Stage both tables: the first with errors, on branches if it exists, the second in a staging table."""
    return [
        stage(run, "orders", number, identity, Upsert(keys=("id",)), errors=True),
        stage(run, "totals", number, identity, adds=number % 2 == 0),
    ]


def seen(options: Mapping[str, Any], root: Path) -> dict[str, int]:
    """Return the number of each table that exists, as another reader sees them in one look; all rows have the same."""
    found = _on_nessie(options) if options["catalog"] == "nessie" else _tables(options, root)
    numbers = {name: set(table.scan().to_arrow()["net"].to_pylist()) for name, table in found.items()}
    assert all(len(values) == 1 for values in numbers.values()), numbers
    return {name: next(iter(values)) for name, values in numbers.items()}


def _on_nessie(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables at one commit of the branch, by the server's own interface."""
    asked = {"requestedKeys": [{"elements": [NAMESPACE, name]} for name in TABLES]}
    answer = requests.post(f"{options['uri']}/trees/{options['ref']}/contents", json=asked, timeout=60)
    assert answer.ok, answer.text
    found = {entry["key"]["elements"][-1]: entry["content"] for entry in answer.json()["contents"]}
    current = {name: content for name, content in found.items() if content["snapshotId"] != -1}
    return {name: StaticTable.from_metadata(content["metadataLocation"]) for name, content in current.items()}


def _tables(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    plain = connect_catalog("plain", options, root)
    return {name: plain.load_table((NAMESPACE, name)) for name in TABLES if plain.table_exists((NAMESPACE, name))}


def publish_killed_before_a_step(
    test: Connection, options: Mapping[str, Any], root: Path, tables: list[StagedResult], at: int
) -> None:
    """Publish what a run has staged, send the name of each step before it is taken, and die just before number ``at``.

    A step is a change of the catalog, or of its server, or an object that is written or deleted.
    """
    number = 0

    def step(name: str) -> None:
        nonlocal number
        if name.startswith("os.") or name.endswith(".avro"):
            return
        test.send(name)
        if number == at:
            os.killpg(0, signal.SIGKILL)
        number += 1

    announce(step)
    publish(runtime(options, root), tables)


def publish(run: Runtime, tables: list[StagedResult]) -> RunPublication:
    """Carry out the last step of a run."""
    return publish_run(run, tables)


def read_repeatedly(test: Connection, stop: Any, options: Mapping[str, Any], root: Path) -> None:
    """Look at both tables until stopped; send how often, the numbers that both had, and all that differed."""
    polls, same, other = 0, set(), []
    seen(options, root)  # the first time takes some seconds
    test.send("begun")
    while not stop.wait(0.02):
        found = seen(options, root)
        polls += 1
        if len(found) == len(TABLES) and len(set(found.values())) == 1:
            same |= set(found.values())
        else:
            other.append(found)
    test.send((polls, same, other))
