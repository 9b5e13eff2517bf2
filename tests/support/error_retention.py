"""Runs that begin at times of a test's choice, and error tables as earlier releases have written them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rivet_dagster.catalogs import parquet_rows
from rivet_dagster.catalogs.iceberg.writes import errors
from rivet_dagster.catalogs.versions import facts
from rivet_dagster.execution import group_run
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.writing import row_errors
from rivet_dagster.model.row_errors import ERROR_SCHEMA, ERROR_TYPES
from support.folders import Files, sink, source

START = datetime(2026, 3, 1, 23, 59, 59, 123456, UTC)


def retaining(strategy: str | dict[str, Any], max_age: str) -> Files:
    """Return a project whose table ``out`` takes the ids of a landing zone, and retains errors for some days."""
    casts = {"columns": [{"id": "CAST(id AS INT)"}], "options": {"landing": True}}
    quarantine = {"mode": "quarantine", "max_age": max_age}
    return {
        "sources/zone.yaml": source("zone", "id STRING", **casts),
        "sinks/out.yaml": sink("out", "zone", write_strategy=strategy, on_error=quarantine),
    }


class RunClock:
    """The time when runs begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = START
        monkeypatch.setattr(group_run, "ThisRun", lambda *given: replace(ThisRun(*given), started=self.now))


def write_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write error tables without the column ``found_at``."""
    fields = json.loads(ERROR_SCHEMA)["fields"]
    schema = json.dumps({"type": "struct", "fields": [field for field in fields if field["name"] != "found_at"]})
    types = {name: kind for name, kind in ERROR_TYPES.items() if name != "found_at"}
    monkeypatch.setattr(row_errors, "_OF_RUN", row_errors._OF_RUN.replace(f", {row_errors._FOUND_AT}", ""))
    monkeypatch.setattr(parquet_rows, "ERROR_TYPES", types)
    monkeypatch.setattr(parquet_rows, "ERROR_SCHEMA", schema)
    monkeypatch.setattr(errors, "ERROR_SCHEMA", schema)
    monkeypatch.setattr(facts, "ERROR_COLUMNS", tuple(types))
