"""A record of the runs that published versions that have expired, so that a retry of a run finds its version.

``publishers.jsonl`` beside the versions has a line for each, added before the version is removed, so that at any time
either the version or its line exists. Lines of versions that were published more than 30 days ago are removed from time
to time: nobody retries a run after so long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from rivet_dagster.catalogs.capabilities.upkeep import REMEMBERED
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest, manifest_from, summary
from rivet_dagster.file_replacement import replace_file


def remember(table: TableLayout, manifests: Iterable[Manifest]) -> None:
    """Add the publishers of these versions of ``table``, durably; the caller holds its lock. Raises OSError."""
    lines = [f"{json.dumps(summary(manifest))}\n".encode() for manifest in manifests]
    if not lines:
        return
    with open(table.publishers, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a process was killed while it added a line
                lines.insert(0, b"\n")
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        oldest = _read(file.readline())
    now = datetime.now(UTC)
    if oldest is None or oldest.published_at < _text(now - 2 * REMEMBERED):
        _forget_before(table, _text(now - REMEMBERED))


def find(table: TableLayout, identity: str) -> Manifest | None:
    """Return the manifest, without columns, of the expired version that ``identity`` published. Raises OSError."""
    written = json.dumps(identity).encode()
    for line in _lines(table):
        manifest = _read(line) if written in line else None
        if manifest is not None and identity in manifest.publishers:
            return replace(manifest, identity=identity)
    return None


def forget(table: TableLayout) -> None:
    """Remove the record of a table that is not published any more. Raises OSError."""
    table.publishers.unlink(missing_ok=True)


def _forget_before(table: TableLayout, oldest: str) -> None:
    recent = [line for line in _lines(table) if (manifest := _read(line)) and manifest.published_at >= oldest]
    replace_file(table.publishers, b"".join(recent), table.publishers.with_suffix(".new"))


def _lines(table: TableLayout) -> list[bytes]:
    try:
        return table.publishers.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def _read(line: bytes) -> Manifest | None:
    """Return None for a line whose writer was killed: its version still exists, or another line has it."""
    try:
        return manifest_from(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
