"""The tables that joints read and write, and their locations."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape

from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.target import Location, Resolved

_NAMED = "a catalog's table"
"""The kind of location of which only the names of catalog and table are known."""

WILD = frozenset("*?[")


@dataclass(frozen=True)
class WrittenTable:
    """A table that a joint writes: that of its rows, or with ``errors`` that of their row errors."""

    joint: Joint
    catalog: str
    table: str
    errors: bool = False

    def __str__(self) -> str:
        return f"{self.catalog}.{self.table}"


@dataclass(frozen=True)
class Tables:
    """The locations of the joints' tables, by the names in the profile and as ``resolved`` on this machine."""

    profile: Profile
    plugins: Plugins
    resolved: Resolved = field(default_factory=dict)
    _locations: dict[tuple[str, str, bool], tuple[Location, ...]] = field(
        default_factory=dict, init=False, compare=False
    )

    def of(self, joint: Joint) -> tuple[Location, ...]:
        """Return the locations that a source reads or another joint writes; without a `catalog` in the workspace."""
        return self._of(*self.named(joint), joint.type == SOURCE)

    def named(self, joint: Joint) -> tuple[str, str]:
        """Return the names of a joint's catalog and table."""
        if joint.catalog is not None:
            return joint.catalog, str(joint.table)
        return self.profile.workspace, joint.name

    def rows(self, joint: Joint) -> WrittenTable:
        """Return the table of the rows that a joint writes."""
        return WrittenTable(joint, *self.named(joint))

    def errors(self, joint: Joint) -> WrittenTable | None:
        """Return the error table of a joint if it quarantines errors: written wherever the joint is stored."""
        catalog, table = self.named(joint)
        errors = joint.on_error.error_table(table) if joint.on_error is not None else None
        return WrittenTable(joint, catalog, errors.table, errors=True) if errors is not None else None

    def at(self, written: WrittenTable) -> tuple[Location, ...]:
        """Return the locations of a written table."""
        return self._of(written.catalog, written.table, is_read=False)

    def in_workspace(self, table: str) -> tuple[Location, ...]:
        """Return the locations of a table of the workspace."""
        return self._of(self.profile.workspace, table, is_read=False)

    def _of(self, catalog: str, table: str, is_read: bool) -> tuple[Location, ...]:
        key = catalog, table, is_read
        if key not in self._locations:
            self._locations[key] = tuple(self._found(catalog, table, is_read))
        return self._locations[key]

    def _found(self, catalog: str, table: str, is_read: bool) -> dict[Location, None]:
        locations: dict[Location, None] = {(_NAMED, catalog, _literal(table.rstrip("/").lower())): None}
        spec = self.profile.catalog(catalog)
        traits = self.plugins.catalogs.get(spec.type) if spec else None
        known: Iterable[Location] = self.resolved.get((catalog, table), ())
        if spec and traits:
            where = traits.read_locations if is_read else traits.written_locations
            known = (*where(spec.options, table), *known)
        # Names that differ only in case are treated as equal, as some file systems and databases do.
        for location in known:
            locations[tuple(map(str.lower, location))] = None
        return locations


def _literal(name: str) -> str:
    return name if WILD.isdisjoint(name) else escape(name)


def share(locations: Collection[Location], others: Collection[Location]) -> bool:
    """Return whether a location of one side and one of the other match, of which either may be a glob.

    >>> share([("raw", "*.csv")], [("raw", "a.csv")]), share([("raw", "*.csv")], [("raw", "a")])
    (True, False)
    """
    return any(all(map(_fits, location, other)) for location in locations for other in others)


def _fits(part: str, other: str) -> bool:
    return part == other or fnmatchcase(part, other) or fnmatchcase(other, part)
