"""Versions that a run has staged: complete, marked, and with a heartbeat, without which the sweep removes them."""

from __future__ import annotations

from dataclasses import replace

from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import exists
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.heartbeat import FileHeartbeat
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.withheld_mark import Mark, StagedFor, is_staged, read_mark, write_mark
from rivet_dagster.catalogs.manifest import Manifest
from rivet_dagster.errors import RivetError


def stage(table: TableLayout, version: str, mark: Mark) -> None:
    """Mark a version that is being built as staged, durably; it stays as long as its heartbeat is renewed.

    Raises RVT-406.
    """
    heartbeat = FileHeartbeat(table, version)
    with heartbeat.required():
        lifecycle.sync_data(table, version)
        since = heartbeat.now()
        with lifecycle.hold_lock(table):
            heartbeat.beat(since)
            write_mark(table, version, mark)


def staged_manifest(table: TableLayout, version: str) -> Manifest:
    """Return the manifest that a staged version would be published with now. Raises RVT-407, OSError."""
    mark = read_mark(table, version)
    staged = mark.staged or StagedFor(None)
    base = lifecycle.manifest_of(table, staged.upon) if staged.upon is not None else None
    statistics = Footers(table.files(version)).statistics(parquet_files(table.data(version)))
    return Manifest.now(version, base, mark.origin.identity, statistics, replace(mark.origin, identity=""))


def staged_by(table: TableLayout, identity: str) -> str | None:
    """Return the version that was staged under ``identity`` and is not published; None if there is none."""
    for version in reversed(lifecycle.list_marked(table)):
        if is_staged(table, version) and _maker(table, version) == identity:
            return version
    return None


def keep_alive(table: TableLayout, version: str, seconds: float) -> bool:
    """Renew the heartbeat of a staged version, and return whether there is such a version. Raises OSError.

    A version that has been silent may be revived: it is removed under the same lock.
    """
    if not exists(table.withheld(version)):
        return False
    with lifecycle.hold_lock(table):
        if not is_staged(table, version):
            return False
        FileHeartbeat(table, version).extend(seconds)
    return True


def take_up(table: TableLayout, version: str) -> Mark:
    """Return the mark of a staged version, whose heartbeat is renewed. Raises RVT-418."""
    if not keep_alive(table, version, 0.0):
        raise no_staged_version(table.name, version)
    return read_mark(table, version)


def withhold(table: TableLayout, version: str) -> None:
    """Withhold a staged version: no sweep removes it. Raises RVT-418."""
    if not exists(table.withheld(version)):
        raise no_staged_version(table.name, version)
    with lifecycle.hold_lock(table):
        if not is_staged(table, version):
            raise no_staged_version(table.name, version)
        mark = read_mark(table, version)
        write_mark(table, version, Mark(mark.origin))
        FileHeartbeat(table, version).end()


def _maker(table: TableLayout, version: str) -> str:
    return read_mark(table, version).origin.identity


def no_staged_version(table: str, version: str) -> RivetError:
    """Return RVT-418 for a version that is not staged any more."""
    return RivetError("RVT-418", f"'{table}' has no staged version {version} any more")
