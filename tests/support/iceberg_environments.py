"""Environments of Iceberg catalogs without a JVM: what is done there, and what readers of the base see meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import Table

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.storage import Published
from support.iceberg_runs import NAMESPACE, UPSERT, Work, announce, lake, run

NAME = "pr-7"
OLD = Work([1, 2, 3], 1, identity="old/orders")
NEW = Work([3, 4], 2, identity="new/orders")
WORKS = {
    "merge": NEW.having(plan=UPSERT),
    "columns": NEW.having(adds=True),
    "errors": NEW.having(adds=True, errors=["new"]),
    "more": NEW.having(errors=["new"], table="more"),
}
"""What runs do in an environment; the last one to a table that the base does not have."""


def run_there(catalog: IcebergCatalog, work: Work, root: Path, name: str = NAME) -> Published | None:
    """Carry out a run in an environment, which is made if there is none."""
    catalog.use_environment(name, "default")
    return run(catalog.in_environment(name), work, root)


def all_works(catalog: IcebergCatalog, root: Path) -> None:
    """Publish a table with errors in the base, and build it and another one in the environment, with errors."""
    run(catalog, replace(OLD, errors=["old"]), root)
    for work in (WORKS["merge"], WORKS["errors"], WORKS["more"]):
        run_there(catalog, work, root)


def tables(options: Mapping[str, Any], root: Path) -> dict[str, Table]:
    """Return the tables that any reader of the base finds in the namespace, without staging tables of runs."""
    plain = connect_catalog("lake", options, root)
    names = plain.list_tables(NAMESPACE) if plain.namespace_exists(NAMESPACE) else []
    return {name[-1]: plain.load_table(name) for name in names if "__rivet_" not in name[-1]}


def rows(table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table by two readers, which must agree."""
    scan = table.scan()
    found = sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    if files:
        assert sorted(duckdb.read_parquet(files, union_by_name=True).fetchall()) == found
    return found


def seen(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return all that a reader of the base sees: of each table what its metadata say is current, and the rows."""
    return {
        name: (
            table.metadata.current_snapshot_id,
            [entry.snapshot_id for entry in table.metadata.snapshot_log],
            str(table.schema()),
            str(table.spec()),
            str(table.sort_order()),
            {key: value for key, value in table.properties.items() if not key.startswith("rivet.environment.")},
            rows(table),
        )
        for name, table in tables(options, root).items()
    }


def data_files(folder: Path) -> dict[str, str]:
    """Return hashes of the data files below a folder by path."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.parquet"))
    }


def of_environments(options: Mapping[str, Any], root: Path) -> list[str]:
    """Return all names of environments in the catalog: tables, branches, tags, properties and snapshots."""
    plain = connect_catalog("lake", options, root)
    spaces = [space for space in ((NAMESPACE,), ("rivet_environments",)) if plain.namespace_exists(space)]
    names = [name for space in spaces for name in plain.list_tables(space)]
    found = [".".join(name) for name in names if name[0] != NAMESPACE or "__rivet_" in name[-1]]
    for name in names:
        metadata = plain.load_table(name).metadata
        found += [f"{name[-1]}/{ref}" for ref in metadata.refs if ref != "main"]
        found += [f"{name[-1]}:{key}" for key in metadata.properties if name[0] == NAMESPACE and "environment" in key]
    return sorted(found)


# What processes do that are killed:


def merge_killed_before_a_step(test: Connection, options: Mapping[str, Any], root: Path, at: int) -> None:
    """Merge the environment, send the name of each step before it is taken, and die just before number ``at``."""
    _die_before(test, at)
    lake(options, root).merge(NAME)


def nessie_merge_killed_before_a_change(test: Connection, options: Mapping[str, Any], root: Path, at: int) -> None:
    """Merge the environment on Nessie, in the same way; a step is a request that changes something on the server."""
    _die_before(test, at, ("POST", "PUT", "DELETE"))
    lake(options, root).merge(NAME)


def drop_killed_before_a_step(test: Connection, options: Mapping[str, Any], root: Path, at: int) -> None:
    """Drop the environment, in the same way."""
    _die_before(test, at)
    lake(options, root).drop(NAME)


def build_killed_before_a_step(test: Connection, options: Mapping[str, Any], root: Path, at: int) -> None:
    """Make an environment and build a table of the base and another one there, in the same way."""
    _die_before(test, at)
    run_there(lake(options, root), WORKS["errors"], root)


def _die_before(test: Connection, at: int, kinds: tuple[str, ...] = ("",)) -> None:
    number = 0

    def step(name: str) -> None:
        nonlocal number
        if not name.startswith(kinds):
            return
        test.send(name)
        if number == at:
            os.killpg(0, signal.SIGKILL)
        number += 1

    announce(step)
