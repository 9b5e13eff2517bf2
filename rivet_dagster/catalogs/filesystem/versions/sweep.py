"""Sweeping: the removal of versions that dead runs left behind, neither published nor being built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, names_in, status
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links
from rivet_dagster.catalogs.filesystem.versions.adoption import find_unexchanged, remove_unexchanged
from rivet_dagster.catalogs.filesystem.versions.layout import (
    ALIVE,
    MANIFEST,
    MARKED,
    UNPUBLISHED,
    TableLayout,
    versions_in,
    versions_with,
)
from rivet_dagster.catalogs.filesystem.versions.links import find_unlinked
from rivet_dagster.catalogs.filesystem.versions.marked import is_staged
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat, now, read_manifest
from rivet_dagster.catalogs.versions.heartbeat import DEAD_AFTER, end_dead, find_dead
from rivet_dagster.errors import NotWritable

_PROBE = re.compile(r"\.(link|clock|kept|watermark)-[0-9a-f]{8}")


def list_building(table: TableLayout) -> list[str]:
    """Return the table's versions that a live run may still be building."""
    return sorted(versions_with(names_in(table.home), ALIVE))


def leftovers_of(table: TableLayout) -> list[str]:
    """Return the versions that ``sweep`` would remove now."""
    if not is_folder(table.home):
        return []
    with lifecycle.hold_lock(table):
        names = names_in(table.home)
        try:
            if _has_published_alone(table, names):
                return []
            suspects = _suspects(table, names, _withheld(table, names))
            return find_unlinked(table, sorted(suspects - lifecycle.find_published(table, suspects)))
        except NotWritable:
            if not (unexchanged := find_unexchanged(table)):
                raise
            return unexchanged


def sweep(table: TableLayout) -> list[str]:
    """Remove the table's leftovers, and return the names of those that are removed."""
    if not is_folder(table.home):
        return []
    with lifecycle.hold_lock(table):
        names = names_in(table.home)
        try:
            leftovers = [] if _has_published_alone(table, names) else _sweep(table, names)
        except NotWritable:  # a folder of somebody else, of which the process that was to take it over has died
            if not (leftovers := remove_unexchanged(table)):
                raise
        _remove_probes(table, names)
    lifecycle.delete(table, leftovers)
    return [version for version in leftovers if lifecycle.is_removed(table, version)]


def _has_published_alone(table: TableLayout, names: Sequence[str]) -> bool:
    """Return whether the ``names`` in the folder of the versions show that all are published, and none was left over.

    That is so after most runs. No manifest is read, of which there is one for each version. Without a version the path
    of the table may be somebody else's.
    """
    if not versions_in(names):
        return True
    if any(name.endswith(UNPUBLISHED) for name in names) or table.published() is None:
        return False
    return versions_in(names) <= versions_with(names, MANIFEST)


def _sweep(table: TableLayout, names: Sequence[str]) -> list[str]:
    """Set the leftovers aside and return them; remove what runs that have died left beside other versions."""
    withheld = _withheld(table, names)
    suspects = _suspects(table, names, withheld)
    beating, marked = versions_with(names, ALIVE), versions_with(names, MARKED)
    published = lifecycle.find_published(table, suspects | ((beating | marked) & versions_with(names, MANIFEST)))
    dead = sorted(suspects - published)
    leftovers = find_unlinked(table, dead)
    for version in dead:
        lifecycle.set_aside(table, version) if version in leftovers else table.expired(version).touch()
    for version in published & beating:  # their runs may have died right after publishing
        FileHeartbeat(table, version).end()
    for version in published & marked:
        table.withheld(version).unlink(missing_ok=True)
    # The process that reopened one of these may have died.
    end_dead(FileHeartbeat(table, version) for version in (withheld - published) & beating)
    links.remove_stale_links(table, _unsettled(table, names) | _replaced(table))
    return leftovers


def _remove_probes(table: TableLayout, names: Iterable[str]) -> None:
    probes = [table.home / name for name in names if _PROBE.fullmatch(name)]
    moment = now(table) if probes else 0.0
    for path in probes:
        # A probe may be a broken link. Live processes remove theirs within moments, so only old ones are removed.
        made = status(path, follow=False)
        if made is not None and moment - made.st_mtime > DEAD_AFTER:
            path.unlink(missing_ok=True)


def _withheld(table: TableLayout, names: Sequence[str]) -> set[str]:
    """Return the versions with a mark that they are withheld; staged ones need the heartbeat of their run."""
    return {version for version in versions_with(names, MARKED) if not is_staged(table, version)}


def _unsettled(table: TableLayout, names: Sequence[str]) -> set[str]:
    """Return the versions that ``names`` in the folder of the versions do not show to be published."""
    if table.published() is None:
        return versions_in(names)
    return versions_with(names, *UNPUBLISHED) | versions_in(names) - versions_with(names, MANIFEST)


def _replaced(table: TableLayout) -> set[str]:
    """Return the version that the published one has replaced."""
    version = table.published()
    manifest = read_manifest(table.manifest(version)) if version is not None else None
    return {manifest.base} if manifest is not None and manifest.base is not None else set()


def _suspects(table: TableLayout, names: Sequence[str], withheld: set[str]) -> set[str]:
    """Return the versions that are dead unless they are published: not withheld, and without a heartbeat."""
    unsettled = (UnsettledFolder(table, version, version in withheld) for version in _unsettled(table, names))
    return {version.name for version in find_dead(unsettled)}


@dataclass(frozen=True)
class UnsettledFolder:
    """A version that may not be published."""

    table: TableLayout
    name: str
    is_withheld: bool

    @property
    def heartbeat(self) -> FileHeartbeat:
        """The heartbeat of its run."""
        return FileHeartbeat(self.table, self.name)
