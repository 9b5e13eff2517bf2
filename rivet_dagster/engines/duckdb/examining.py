"""Findings about DuckDB for ``rivet-dagster doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rivet_dagster.engines.duckdb.installed import duckdb_version, require_duckdb
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_FOLDER = "Name another folder as the engine's `temp_directory`."


def examine(subject: str, config: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the package, whether a database takes the settings, and the folder that it spills to."""
    try:
        require_duckdb()
        from rivet_dagster.engines.duckdb.database import MemoryDatabase

        MemoryDatabase({**config, "temp_directory": ""}, settings)
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, f"duckdb {duckdb_version()}, with a database in this process's memory")
    folder = Path(config["temp_directory"])
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if os.access(there, os.W_OK):
        yield in_order(subject, f"what does not fit into memory goes to {folder}")
    else:
        message = f"{folder} cannot be written to, so queries that do not fit into memory fail"
        yield doubtful(subject, message, _FOLDER)
