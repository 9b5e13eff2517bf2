"""Sweeping: the removal of versions that dead runs left behind, neither published nor being built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, names_in, status
from rivet_dagster.catalogs.filesystem.versions import error_tables, lifecycle
from rivet_dagster.catalogs.filesystem.versions.heartbeat import FileHeartbeat, now
from rivet_dagster.catalogs.filesystem.versions.layout import (
    MANIFEST,
    UNPUBLISHED,
    TableLayout,
    find_unlinked,
    versions_in,
)
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
        if _has_published_alone(table, names_in(table.home)):
            return []
        return find_unlinked(table, _dead(table, {*lifecycle.history(table), *_withheld(table)}))


def sweep(table: TableLayout) -> list[str]:
    """Remove the table's leftovers, and return the names of those that are removed."""
    if not is_folder(table.home):
        return []
    with lifecycle.hold_lock(table):
        names = names_in(table.home)
        leftovers = [] if _has_published_alone(table, names) else _sweep(table)
        _remove_probes(table, names)
    lifecycle.delete(table, leftovers)
    return [version for version in leftovers if lifecycle.is_removed(table, version)]


def _has_published_alone(table: TableLayout, names: Sequence[str]) -> bool:
    """Return whether the ``names`` in the folder of the versions show that all are published, and none was left over.

    That is so after most runs. No manifest is read, of which there is one for each version.
    """
    if any(name.endswith(UNPUBLISHED) for name in names) or table.published() is None:
        return False
    manifests = {name.removesuffix(MANIFEST) for name in names if name.endswith(MANIFEST)}
    return versions_in(names) <= manifests


def _sweep(table: TableLayout) -> list[str]:
    """Set the leftovers aside and return them; remove what runs that have died left beside other versions."""
    published, marked, withheld = set(lifecycle.history(table)), _marked(table), _withheld(table)
    dead = _dead(table, published | withheld)
    leftovers = find_unlinked(table, dead)
    for version in dead:
        lifecycle.set_aside(table, version) if version in leftovers else table.expired(version).touch()
    for version in published:  # their runs may have died right after publishing
        FileHeartbeat(table, version).end()
    for version in published & marked:
        table.withheld(version).unlink(missing_ok=True)
    for version in withheld - published:  # the process that reopened it may have died
        heartbeat = FileHeartbeat(table, version)
        if not heartbeat.is_alive():
            heartbeat.end()
    error_tables.remove_stale_links(table)
    return leftovers


def _remove_probes(table: TableLayout, names: Iterable[str]) -> None:
    probes = [table.home / name for name in names if _PROBE.fullmatch(name)]
    moment = now(table) if probes else 0.0
    for path in probes:
        # A probe may be a broken link. Live processes remove theirs within moments, so only old ones are removed.
        made = status(path, follow=False)
        if made is not None and moment - made.st_mtime > DEAD_AFTER:
            path.unlink(missing_ok=True)


def _marked(table: TableLayout) -> set[str]:
    """Return the versions with a mark: withheld ones, and those that runs have staged."""
    return {version for version in table.versions() if exists(table.withheld(version))}


def _withheld(table: TableLayout) -> set[str]:
    """Return the versions with a mark that they are withheld; staged ones need the heartbeat of their run."""
    return {version for version in _marked(table) if not is_staged(table, version)}


def _dead(table: TableLayout, needed: set[str]) -> list[str]:
    """Return the versions that are not ``needed``, and whose run counts as dead."""
    unneeded = sorted(version for version in table.versions() if version not in needed)
    return [version for version in unneeded if not FileHeartbeat(table, version).is_alive()]
