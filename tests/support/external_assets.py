"""Rows of a plain asset, stored without Dagster and without an engine."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.external_assets import external_reference, store_external_asset
from rivet_dagster.model.external_assets import Part
from support.projects import compile_joints, sql

KEY = ("shop", "raw")
_PLAN = compile_joints(sql("numbers", "SELECT 1 AS id")).raise_errors()


def runtime(root: Path) -> Runtime:
    """Return a new runtime of the project."""
    return Runtime(_PLAN, root)


def store_ids(root: Path, ids: Sequence[int], part: Part | None = None, identity: str | None = None) -> None:
    """Store these ids, as a reader that can be read only once, as the asset or one of its partitions."""
    batch = pa.record_batch({"id": pa.array(ids, pa.int64())})
    value = pa.RecordBatchReader.from_batches(batch.schema, iter([batch]))
    store_external_asset(runtime(root), KEY, part, value, identity or str(uuid.uuid4()))


def stored_ids(root: Path) -> list[int] | None:
    """Return the ids that a reader gets, or None if nothing is stored."""
    try:
        return sorted(external_reference(runtime(root), KEY).to_arrow()["id"].to_pylist())
    except RivetError as error:
        if error.code != "RVT-401":
            raise
        return None
