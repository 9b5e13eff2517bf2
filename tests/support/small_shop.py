"""A small project that runs on DuckDB, so that each command can be tried without a JVM."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.folders import ProjectFolder, sink
from support.plugins import install

SITE = "site"
"""The folder, beside the project, where the engine is installed."""

PROFILES = {
    "default": {
        "catalogs": {
            "raw": {"type": "filesystem", "path": "data"},
            "lake": {"type": "filesystem", "path": "lake"},
        },
        "engines": [{"name": "duck", "type": "duck", "catalogs": ["raw", "lake"]}],
    }
}
TEST = """\
name: refunds_are_left_out
target: revenue
inputs:
  paid: {rows: [{customer: ann, amount: 10}, {customer: ann, amount: 5}]}
expected: {rows: [{customer: ann, revenue: 15}]}
"""
HAS_CUSTOMER = {"type": "not_null", "columns": ["customer"], "name": "has_customer"}
FILES = {
    "profiles.yaml": PROFILES,
    "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders.parquet"},
    "joints/paid.sql": "-- rivet:eager: true\nSELECT id, customer, amount, at FROM orders WHERE amount > 0",
    "joints/revenue.sql": "SELECT customer, CAST(sum(amount) AS BIGINT) AS revenue FROM paid GROUP BY customer",
    "sinks/by_customer.yaml": sink(
        "by_customer",
        "revenue",
        assertions=[HAS_CUSTOMER],
        write_strategy={"mode": "merge", "key_columns": ["customer"]},
    ),
    "sinks/history.yaml": sink(
        "history", "paid", write_strategy={"mode": "incremental_append", "watermark_column": "at"}
    ),
    "tests/revenue.test.yaml": TEST,
}
ORDERS = {
    "id": [1, 2, 3, 4],
    "customer": ["ann", "bob", "ann", "cat"],
    "amount": [10, 20, 5, -7],
    "at": [date(2026, 1, day) for day in (1, 2, 3, 4)],
}


def small_shop(root: Path, files: Mapping[str, Any] | None = None) -> ProjectFolder:
    """Write the project, with other ``files`` in place of its own or beside them."""
    folder = ProjectFolder(root, {**FILES, **(files or {})})
    write_orders(root, ORDERS)
    return folder


def write_orders(root: Path, columns: Mapping[str, list[Any]]) -> None:
    """Replace the rows of the source."""
    pq.write_table(pa.table(columns), root / "data/orders.parquet")


def install_duckdb(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Install the engine for this process."""
    install(monkeypatch, folder / SITE, engines={"duck": "support.duckdb_engine:DuckDBEngine"})


def environ_with_duckdb(folder: Path) -> dict[str, str]:
    """Return the environment of other processes, after the engine has been installed, and of no project."""
    own = ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT")
    paths = [folder / SITE, Path(__file__).parents[1], os.environ.get("PYTHONPATH", "")]
    others = {name: value for name, value in os.environ.items() if name not in own}
    return {**others, "PYTHONPATH": os.pathsep.join(str(path) for path in paths if str(path))}
