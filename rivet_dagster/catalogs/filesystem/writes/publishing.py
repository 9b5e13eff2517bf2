"""Publishing a version that has been written."""

from __future__ import annotations

from contextlib import suppress

from rivet_dagster.catalogs.filesystem.files.data_files import stamp_of
from rivet_dagster.catalogs.filesystem.files.file_status import exists
from rivet_dagster.catalogs.filesystem.versions import error_tables, heartbeat, lifecycle, publishers
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest, Origin
from rivet_dagster.catalogs.filesystem.writes.staged_errors import StagedErrors
from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion
from rivet_dagster.errors import RivetError


def publish(
    staged: StagedVersion,
    errors: StagedErrors,
    identity: str,
    origin: Origin,
    keep: int,
) -> Manifest:
    """Switch readers to ``staged`` and its ``errors``, and expire all but the newest ``keep`` versions.

    ``origin`` says from what the version was made, and by which run if another one publishes it. Publishing the
    published version again changes nothing. Raises what ``TableTransaction.commit`` does, and OSError.
    """
    table, name = staged.table, staged.name
    if table.published() == name and (done := lifecycle.manifest_of(table, name)):
        return done
    with heartbeat.required(table, name):
        files = staged.files()
        statistics = staged.footers.statistics(files)
        if staged.audited is not None and staged.audited != frozenset(map(stamp_of, files)):
            raise RivetError("RVT-407", f"the files in {staged.shown} have changed since they were judged")
        files = lifecycle.tidy(staged.folder, staged.footers)
        errors.complete()
        lifecycle.sync_data(table, name)
        staged.footers.write(files, table.files(name))
        since = heartbeat.now(table)
    with lifecycle.locked(table):
        version = table.published()
        current = lifecycle.manifest_of(table, version) if version else None
        heartbeat.beat(table, name, since)
        if version != staged.upon:
            raise moved(staged, version)
        error_tables.move_rows(table, name)
        manifest = Manifest.now(name, current, identity, statistics, origin)
        manifest.write(table.manifest(name))
        lifecycle.sync(table.home)
        if version is None:
            publishers.forget(table)
            for folder in (table.home, table.home.parent, table.folder):
                lifecycle.sync_entry(folder)
        if error_tables.make_link(table, name):
            lifecycle.sync(table.folder)
        lifecycle.switch(table, name)
        heartbeat.end(table, name)
        if exists(table.withheld(name)):
            table.withheld(name).unlink()
        with suppress(OSError, RivetError):  # the version is published; the next run reports what is wrong with others
            error_tables.remove_stale_links(table)
            lifecycle.expire(table, keep)
    return manifest


def moved(staged: StagedVersion, version: str | None) -> RivetError:
    """Return RVT-405 for a table that another run has published, at ``version`` now, since a version was begun."""
    name, upon = staged.table.name, staged.upon or "nothing"
    return RivetError("RVT-405", f"'{name}' was at {upon} when this run began and is at {version or 'nothing'} now")
