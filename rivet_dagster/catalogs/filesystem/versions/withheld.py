"""Versions that a person decides about: withheld ones, and older ones that can be published again."""

from __future__ import annotations

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.versions import error_tables, lifecycle, publishers
from rivet_dagster.catalogs.filesystem.versions.heartbeat import FileHeartbeat
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.linked_versions import find_unlinked
from rivet_dagster.catalogs.filesystem.versions.manifest_file import read_manifest
from rivet_dagster.catalogs.filesystem.versions.withheld_mark import Mark, is_staged, read_mark, write_mark
from rivet_dagster.catalogs.heartbeat import send_heartbeats
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.storage import CURRENT, OLDER, STAGED, WITHHELD, Provenance, Version


def all_versions(table: TableLayout) -> tuple[Version, ...]:
    """Return the published versions, the newest first, then the withheld ones, then those that runs have staged."""
    current = table.published()
    published = [_published(table, name, current) for name in lifecycle.history(table) if is_folder(table.data(name))]
    marked = lifecycle.list_marked(table)
    staged = [name for name in marked if is_staged(table, name)]
    return (
        *published,
        *(Version(name, WITHHELD, _rows(table, name)) for name in marked if name not in staged),
        *(_staged(table, name) for name in staged),
    )


def withhold(table: TableLayout, version: str, origin: Provenance) -> None:
    """Mark a staged version as withheld, durably, so that no sweep removes it. Raises RVT-406."""
    heartbeat = FileHeartbeat(table, version)
    with heartbeat.required():
        lifecycle.sync_data(table, version)
        since = heartbeat.now()
        with lifecycle.hold_lock(table):
            heartbeat.beat(since)
            write_mark(table, version, Mark(origin))
            heartbeat.end()


def take_up(table: TableLayout, version: str) -> Provenance:
    """Reopen a withheld version, as one that is being built, and return how it came about. Raises RVT-408.

    It keeps its mark until it is published or removed: if this process dies, it is withheld as before.
    """
    if not exists(table.withheld(version)):
        raise _unknown(table, version, WITHHELD)
    with lifecycle.hold_lock(table):
        if version not in _withheld(table):
            raise _unknown(table, version, WITHHELD)
        if FileHeartbeat(table, version).is_alive():
            message = f"somebody else is publishing or dropping the version {version} of '{table.name}'"
            raise RivetError("RVT-408", message, remediation="Wait a minute, then look at `versions list`.")
        origin = read_mark(table, version).origin
        FileHeartbeat(table, version).begin()
    return origin


def restage(table: TableLayout, version: str) -> tuple[str, Provenance]:
    """Begin a version with the files of an older one, and return its name and from what the older one was made.

    Raises RVT-402, RVT-404, RVT-408.
    """
    if not _is_older(table, version):
        raise _unknown(table, version, OLDER)
    manifest = read_manifest(table.manifest(version))
    new = lifecycle.begin(table)
    try:
        # Not under the lock, which heartbeats wait for: files that cannot be shared are copied, which may take long.
        with send_heartbeats(lambda: lifecycle.beat(table, new), table.name):
            lifecycle.copy(table, version, new)
    except BaseException as error:
        lifecycle.remove(table, new)
        if isinstance(error, FileNotFoundError):
            raise _unknown(table, version, OLDER) from error
        raise
    return new, Provenance(manifest.inputs, code_versions=manifest.code_versions) if manifest else Provenance()


def evict(table: TableLayout, version: str) -> None:
    """Remove the links and all published versions of the table if readers see that version."""
    with lifecycle.hold_lock(table):
        if table.published() == version:
            published = lifecycle.history(table)
            table.unpublish()
            error_tables.remove_links(table)
            publishers.forget(table)
            for name in reversed(find_unlinked(table, published)):
                lifecycle.remove(table, name)


def _is_older(table: TableLayout, version: str) -> bool:
    """Return whether a version is published, and another one has replaced it; no other is looked at."""
    if version not in table.versions() or version == table.published() or not is_folder(table.data(version)):
        return False
    return version in publishers.read(table).versions or bool(lifecycle.find_published(table, [version]))


def _published(table: TableLayout, name: str, current: str | None) -> Version:
    manifest = read_manifest(table.manifest(name))
    state = CURRENT if name == current else OLDER
    if manifest is None:
        return Version(name, state, _rows(table, name))
    return Version(name, state, manifest.rows, manifest.published_at, manifest.identity, manifest.inputs)


def _staged(table: TableLayout, name: str) -> Version:
    origin = read_mark(table, name).origin
    return Version(name, STAGED, _rows(table, name), None, origin.identity, origin.inputs)


def _rows(table: TableLayout, name: str) -> int | None:
    files = parquet_files(table.data(name))
    return read_statistics(files).rows if files else None


def _withheld(table: TableLayout) -> list[str]:
    return [name for name in lifecycle.list_marked(table) if not is_staged(table, name)]


def _named(table: TableLayout, state: str) -> list[str]:
    return [version.name for version in all_versions(table) if version.state == state]


def _unknown(table: TableLayout, version: str, state: str) -> RivetError:
    hint = nearest(version, _named(table, state))
    return RivetError("RVT-408", f"'{table.name}' has no {state} version '{version}'{hint}")
