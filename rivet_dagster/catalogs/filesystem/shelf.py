"""Versions that a person decides on: those that are kept back, and older ones that can come back."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping

from rivet_dagster.catalogs.filesystem import heartbeat, versions
from rivet_dagster.catalogs.filesystem.footers import parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.manifest import read_manifest
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder
from rivet_dagster.catalogs.filesystem.readings import readings_as_json, readings_from_json
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.storage import CURRENT, KEPT_BACK, OLDER, Reading, Version


def all_versions(table: TableLayout) -> tuple[Version, ...]:
    """The published versions, the newest first, then those that are kept back."""
    there = (name for name in versions.history(table) if is_folder(table.data(name)))
    published = [_published(table, name) for name in there]
    kept = [name for name in sorted(table.versions()) if exists(table.kept(name))]
    return (*published, *(Version(name, KEPT_BACK, _rows(table, name)) for name in kept))


def keep_back(table: TableLayout, version: str, landed: Mapping[str, Reading]) -> None:
    """Take a staged version out of the reach of sweeps; its mark says what it was made of."""
    mark = table.home / f".kept-{secrets.token_hex(4)}"
    mark.write_text(json.dumps(readings_as_json(landed)), encoding="utf-8")
    os.replace(mark, table.kept(version))
    heartbeat.end(table, version)


def take_up(table: TableLayout, version: str) -> dict[str, Reading]:
    """Let a version that was kept back be one being built again, and tell what it was made of. Raises RVT-408."""
    if not exists(table.kept(version)):
        raise _unknown(table, version, KEPT_BACK)
    heartbeat.begin(table, version)
    landed = readings_from_json(json.loads(table.kept(version).read_text(encoding="utf-8") or "{}"))
    table.kept(version).unlink()
    return landed


def restage(table: TableLayout, version: str) -> str:
    """A new version with the files of an older one. Raises RVT-402, RVT-404, RVT-408."""
    new = versions.begin(table)
    with versions.locked(table):
        if version in _named(table, OLDER):
            versions.copy(table, version, new)
            return new
    versions.remove(table, new)
    raise _unknown(table, version, OLDER)


def evict(table: TableLayout, version: str) -> None:
    """Remove all that is published of the table if it is at that version."""
    with versions.locked(table):
        if table.published() == version:
            published = versions.history(table)
            os.unlink(table.link)
            for name in reversed(published):
                versions.remove(table, name)


def _published(table: TableLayout, name: str) -> Version:
    manifest = read_manifest(table.manifest(name))
    state = CURRENT if name == table.published() else OLDER
    if manifest is None:
        return Version(name, state, _rows(table, name))
    return Version(name, state, manifest.rows, manifest.published_at, manifest.identity)


def _rows(table: TableLayout, name: str) -> int | None:
    files = parquet_files(table.data(name))
    return read_statistics(files).rows if files else None


def _named(table: TableLayout, state: str) -> list[str]:
    return [known.name for known in all_versions(table) if known.state == state]


def _unknown(table: TableLayout, version: str, state: str) -> RivetError:
    hint = nearest(version, _named(table, state))
    return RivetError("RVT-408", f"'{table.name}' has no {state} version '{version}'{hint}")
