"""Removing what runs that died left behind: versions that are neither published nor being built."""

from __future__ import annotations

import re

from rivet_dagster.catalogs.capabilities.sweeping import DEAD_AFTER
from rivet_dagster.catalogs.filesystem import heartbeat, versions
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.links import unlinked
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, names_in, status

_PROBE = re.compile(r"\.(link|clock|kept|watermark)-[0-9a-f]{8}")


def building(table: TableLayout) -> list[str]:
    """The table's versions that somebody may still be building."""
    return sorted(version for version in table.versions() if exists(table.alive(version)))


def leftovers(table: TableLayout) -> list[str]:
    """What ``sweep`` would remove now."""
    if not is_folder(table.home):
        return []
    with versions.locked(table):
        return _left(table, {*versions.history(table), *_marked(table)}, heartbeat.now(table))


def sweep(table: TableLayout) -> list[str]:
    """Remove the table's leftovers, and give their names."""
    if not is_folder(table.home):
        return []
    with versions.locked(table):
        now, published, marked = heartbeat.now(table), set(versions.history(table)), _marked(table)
        left = _left(table, published | marked, now)
        for version in left:
            versions.remove(table, version)
        for version in published:  # their runs may have died right after they had published
            heartbeat.end(table, version)
        for version in published & marked:
            table.withheld(version).unlink(missing_ok=True)
        for version in marked - published:  # whoever took it up may have died
            if not heartbeat.is_alive(table, version, now):
                heartbeat.end(table, version)
        _remove_probes(table, now)
        return [version for version in left if not exists(table.removed(version)) and not exists(table.data(version))]


def _remove_probes(table: TableLayout, now: float) -> None:
    for path in map(table.home.joinpath, names_in(table.home)):
        # A probe may be a link to nothing, and one of somebody who lives is gone in a moment.
        made = status(path, follow=False) if _PROBE.fullmatch(path.name) else None
        if made is not None and now - made.st_mtime > DEAD_AFTER:
            path.unlink(missing_ok=True)


def _marked(table: TableLayout) -> set[str]:
    """The versions that are withheld for a person."""
    return {version for version in table.versions() if exists(table.withheld(version))}


def _left(table: TableLayout, kept: set[str], now: float) -> list[str]:
    return unlinked(
        table, sorted(v for v in table.versions() if v not in kept and not heartbeat.is_alive(table, v, now))
    )
