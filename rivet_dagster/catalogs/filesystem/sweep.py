"""Removing what runs that died left behind: versions that are neither published nor being built."""

from __future__ import annotations

import re

from rivet_dagster.catalogs.contract import DEAD_AFTER
from rivet_dagster.catalogs.filesystem import heartbeat, versions
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder

_PROBE = re.compile(r"^\.(link|clock|kept|watermark)-[0-9a-f]{8}$")


def building(table: TableLayout) -> list[str]:
    """The table's versions that somebody may still be building."""
    return sorted(version for version in table.versions() if exists(table.alive(version)))


def leftovers(table: TableLayout) -> list[str]:
    """What ``sweep`` would remove now."""
    if not is_folder(table.home):
        return []
    with versions.locked(table):
        return _left(table, _kept(table), heartbeat.now(table))


def sweep(table: TableLayout) -> list[str]:
    """Remove the table's leftovers, and give their names."""
    if not is_folder(table.home):
        return []
    with versions.locked(table):
        now, kept = heartbeat.now(table), _kept(table)
        left = _left(table, kept, now)
        for version in left:
            versions.remove(table, version)
        for version in kept:
            heartbeat.end(table, version)  # its run died right after it had published
        for path in table.home.iterdir():
            # Lstat: a probe may be a link to nothing by now.
            if _PROBE.match(path.name) and now - path.lstat().st_mtime > DEAD_AFTER:
                path.unlink(missing_ok=True)
    return left


def _kept(table: TableLayout) -> set[str]:
    """What is published, and what was kept back for a person."""
    marked = {version for version in table.versions() if exists(table.kept(version))}
    return set(versions.history(table)) | marked


def _left(table: TableLayout, kept: set[str], now: float) -> list[str]:
    return sorted(v for v in table.versions() if v not in kept and not heartbeat.is_alive(table, v, now))
