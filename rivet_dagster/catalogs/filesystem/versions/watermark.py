"""Watermarks: the maximum of a column of a version, and the override that a person set in its place.

An override is stored in a file beside the version for which it was set, so that it ends with the next version.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import damage
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.parquet_rows import greatest
from rivet_dagster.catalogs.versions.refusals import moved_watermark
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.model.storage import Statistics
from rivet_dagster.model.watermark import Override


def read_max(folder: Path, statistics: Statistics, column: str) -> Any:
    """Return the maximum of a column of a version, None if it has no value; NaN is greater than all others.

    The column is read batch by batch. Raises RVT-407.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = parquet_files(folder)
    name, type_ = next(named for named in statistics.columns if named[0].lower() == column.lower())
    # Spark may store a TIMESTAMP as INT96, which has neither unit nor time zone.
    format = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    try:
        most = greatest(ds.dataset([str(path) for path in files], format=format).to_batches(columns=[name]))
    except (OSError, pa.ArrowException) as error:
        raise RivetError("RVT-407", f"the column '{column}' of {folder} cannot be read: {error}") from error
    return most.replace(tzinfo=UTC) if type_ == "timestamp" and most is not None else most


def read_override(table: TableLayout, version: str) -> Override | None:
    """Return the override of a version; None without one."""
    file = table.watermark(version)
    try:
        text = file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    with damage(file, "Set it again with `rivet-dagster watermark set`, or remove the file."):
        return Override(json.loads(text)["value"])


def write_override(table: TableLayout, version: str, override: Override) -> None:
    """Set the override, unless another version has been published by now. Raises RVT-405, OSError."""
    with lifecycle.hold_lock(table):
        if table.published() != version:
            raise moved_watermark(table.name, table.published(), version)
        unfinished = table.home / f".watermark-{secrets.token_hex(4)}"
        replace_file(table.watermark(version), json.dumps({"value": override.value}).encode(), unfinished)
