"""Sweeping: the removal of versions that dead runs left behind, neither published nor being built."""

from __future__ import annotations

import re

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, names_in, status
from rivet_dagster.catalogs.filesystem.versions import error_tables, lifecycle
from rivet_dagster.catalogs.filesystem.versions.heartbeat import FileHeartbeat, now
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, find_unlinked
from rivet_dagster.catalogs.filesystem.versions.withheld_mark import is_staged
from rivet_dagster.catalogs.heartbeat import DEAD_AFTER

_PROBE = re.compile(r"\.(link|clock|kept|watermark)-[0-9a-f]{8}")


def list_building(table: TableLayout) -> list[str]:
    """Return the table's versions that a live run may still be building."""
    return sorted(version for version in table.versions() if exists(table.alive(version)))


def leftovers_of(table: TableLayout) -> list[str]:
    """Return the versions that ``sweep`` would remove now."""
    if not is_folder(table.home):
        return []
    with lifecycle.hold_lock(table):
        return _leftovers(table, {*lifecycle.history(table), *_withheld(table)})


def sweep(table: TableLayout) -> list[str]:
    """Remove the table's leftovers, and return the names of those that are removed."""
    if not is_folder(table.home):
        return []
    with lifecycle.hold_lock(table):
        published, marked, withheld = set(lifecycle.history(table)), _marked(table), _withheld(table)
        leftovers = _leftovers(table, published | withheld)
        for version in leftovers:
            lifecycle.remove(table, version)
        for version in published:  # their runs may have died right after publishing
            FileHeartbeat(table, version).end()
        for version in published & marked:
            table.withheld(version).unlink(missing_ok=True)
        for version in withheld - published:  # the process that reopened it may have died
            heartbeat = FileHeartbeat(table, version)
            if not heartbeat.is_alive():
                heartbeat.end()
        _remove_probes(table)
        error_tables.remove_stale_links(table)
        return [version for version in leftovers if lifecycle.is_removed(table, version)]


def _remove_probes(table: TableLayout) -> None:
    moment = now(table)
    for path in map(table.home.joinpath, names_in(table.home)):
        # A probe may be a broken link. Live processes remove theirs within moments, so only old ones are removed.
        made = status(path, follow=False) if _PROBE.fullmatch(path.name) else None
        if made is not None and moment - made.st_mtime > DEAD_AFTER:
            path.unlink(missing_ok=True)


def _marked(table: TableLayout) -> set[str]:
    """Return the versions with a mark: withheld ones, and those that runs have staged."""
    return {version for version in table.versions() if exists(table.withheld(version))}


def _withheld(table: TableLayout) -> set[str]:
    """Return the versions with a mark that they are withheld; staged ones need the heartbeat of their run."""
    return {version for version in _marked(table) if not is_staged(table, version)}


def _leftovers(table: TableLayout, needed: set[str]) -> list[str]:
    """Return the versions that are not ``needed``, whose run counts as dead, and to which no link leads.

    Links are looked for last, since that reads the catalog's folder: most sweeps find no dead version.
    """
    unneeded = sorted(version for version in table.versions() if version not in needed)
    return find_unlinked(table, [v for v in unneeded if not FileHeartbeat(table, v).is_alive()])
