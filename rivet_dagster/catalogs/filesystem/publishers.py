"""Who published the versions that have expired: a retry of their runs must find that it has published.

A line for each in ``publishers.jsonl`` beside the versions, added before the version goes, so that at every instant one
of the two tells. What is older than 30 days, longer than anybody retries a run, is removed from time to time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.manifest import Manifest, manifest_from, summary

REMEMBERED = timedelta(days=30)


def remember(table: TableLayout, manifests: Iterable[Manifest]) -> None:
    """Add who published these versions of ``table``, under its lock and for good. Raises OSError."""
    lines = [f"{json.dumps(summary(manifest))}\n".encode() for manifest in manifests]
    if not lines:
        return
    with open(table.publishers, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # somebody was killed while adding a line
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
    """The manifest, without columns, of the expired version that ``identity`` published. Raises OSError."""
    written = json.dumps(identity).encode()
    for line in _lines(table):
        manifest = _read(line) if written in line else None
        if manifest is not None and identity in manifest.publishers:
            return replace(manifest, identity=identity)
    return None


def forget(table: TableLayout) -> None:
    """Forget who published the versions of a table that is not published any more. Raises OSError."""
    table.publishers.unlink(missing_ok=True)


def _forget_before(table: TableLayout, oldest: str) -> None:
    stay = [line for line in _lines(table) if (manifest := _read(line)) and manifest.published_at >= oldest]
    rewritten = table.publishers.with_suffix(".new")
    with open(rewritten, "wb") as file:
        file.writelines(stay)
        file.flush()
        os.fsync(file.fileno())
    os.replace(rewritten, table.publishers)


def _lines(table: TableLayout) -> list[bytes]:
    try:
        return table.publishers.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def _read(line: bytes) -> Manifest | None:
    """None for a line that somebody was killed in the middle of: its version is still there, or stands in another."""
    try:
        return manifest_from(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
