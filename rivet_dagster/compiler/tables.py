"""The rule that each table has one writer, however it is named, and that no source reads what the project writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.external_assets import KEPT
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.location import Location, Resolved
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile

_NAMED = "a catalog's table"
"""The kind of location of which only the names of catalog and table are known."""

_WILD = frozenset("*?[")
_OTHER_TABLE = "Give the sink another table, or name another catalog as the profile's `workspace`."


@dataclass(frozen=True)
class Tables:
    """The locations of the joints' tables, by the names in the profile and as ``resolved`` on this machine."""

    profile: Profile
    plugins: Plugins
    resolved: Resolved = field(default_factory=dict)
    _locations: dict[str, tuple[Location, ...]] = field(default_factory=dict, init=False, compare=False)

    def of(self, joint: Joint) -> tuple[Location, ...]:
        """Return the locations that a source reads or another joint writes; all but sinks write to the workspace."""
        if joint.name not in self._locations:
            self._locations[joint.name] = tuple(self._of(*self.named(joint), joint.type == SOURCE))
        return self._locations[joint.name]

    def named(self, joint: Joint) -> tuple[str, str]:
        """Return the names of a joint's catalog and table."""
        if joint.type in (SOURCE, SINK):
            return str(joint.catalog), str(joint.table)
        return self.profile.workspace, joint.name

    def in_workspace(self, table: str) -> tuple[Location, ...]:
        """Return the locations of a table of the workspace."""
        return tuple(self._of(self.profile.workspace, table, is_read=False))

    def _of(self, catalog: str, table: str, is_read: bool) -> Iterator[Location]:
        yield _NAMED, catalog, escape(table.rstrip("/").lower())
        spec = self.profile.catalog(catalog)
        traits = self.plugins.catalogs.get(spec.type) if spec else None
        known: Iterable[Location] = self.resolved.get((catalog, table), ())
        if spec and traits:
            where = traits.read_locations if is_read else traits.written_locations
            known = (*where(spec.options, table), *known)
        # Names that differ only in case are treated as equal, as some file systems and databases do.
        yield from (tuple(map(str.lower, location)) for location in known)


def check_tables(graph: Graph, tables: Tables, diagnostics: Diagnostics) -> None:
    """Report RVT-310 for sinks whose tables are equal or nested, and for a source that reads a table of a sink."""
    writers = _Writers()
    for joint in graph.joints.values():
        if joint.type == SINK:
            other = writers.at(tables.of(joint))
            if other is not None:
                message = f"sink '{other.name}' writes the table {_shown(other, tables)} already"
                _refuse(joint, other, message, None, tables, diagnostics)
            elif str(joint.table).lower().startswith(KEPT):
                _check_external(joint, tables, diagnostics)
            writers.add(joint, tables.of(joint))
    _check_sources(graph, tables, writers, diagnostics)


def check_stored_tables(graph: Graph, tables: Tables, stored: Collection[str], diagnostics: Diagnostics) -> None:
    """Report RVT-310 for a sink or source on a workspace table in which one of the joints ``stored`` is published."""
    writers = _Writers()
    for joint in graph.joints.values():
        if joint.name in stored and joint.type not in (SOURCE, SINK):
            writers.add(joint, tables.of(joint))
    for joint in graph.joints.values():
        other = writers.at(tables.of(joint)) if joint.type == SINK else None
        if other is not None:
            message = f"the joint '{other.name}' is stored between groups as {_shown(other, tables)}"
            _refuse(joint, other, message, _OTHER_TABLE, tables, diagnostics)
    _check_sources(graph, tables, writers, diagnostics)


def share(locations: Collection[Location], others: Collection[Location]) -> bool:
    """Return whether a location of one side and one of the other match, of which either may be a glob.

    >>> share([("raw", "*.csv")], [("raw", "a.csv")]), share([("raw", "*.csv")], [("raw", "a")])
    (True, False)
    """
    return any(all(map(_fits, location, other)) for location in locations for other in others)


def _fits(part: str, other: str) -> bool:
    return part == other or fnmatchcase(part, other) or fnmatchcase(other, part)


def _refuse(
    sink: Joint, other: Joint, message: str, remediation: str | None, tables: Tables, diagnostics: Diagnostics
) -> None:
    if _shown(sink, tables).lower() != _shown(other, tables).lower():
        message += f", and {_shown(sink, tables)} shares its folder"
    diagnostics.error(sink, "RVT-310", message, "table", remediation)


def _check_sources(graph: Graph, tables: Tables, writers: _Writers, diagnostics: Diagnostics) -> None:
    for joint in graph.joints.values():
        writer = writers.read_at(tables.of(joint)) if joint.type == SOURCE else None
        if writer is None:
            continue
        if writer.type == SINK:
            content = f"what the sink '{writer.name}' writes"
            instead = " and ".join(graph.upstream[writer.name]) or writer.name
        else:
            content, instead = f"what is stored of the joint '{writer.name}'", writer.name
        name, table = _shown(joint, tables), _shown(writer, tables)
        which = f"{name} is {content}" if name.lower() == table.lower() else f"{name} holds {content} as {table}"
        diagnostics.error(joint, "RVT-310", f"{which}: read {instead} instead", "table")


def _check_external(sink: Joint, tables: Tables, diagnostics: Diagnostics) -> None:
    """Report a sink whose table is among those that hold the rows of external assets."""
    stored_at = _Writers()
    stored_at.add(sink, tables.in_workspace(str(sink.table)))
    if stored_at.at(tables.of(sink)) is not None:
        message = f"names that begin with {KEPT} are those of what other Dagster assets return, in the workspace"
        diagnostics.error(sink, "RVT-310", message, "table", _OTHER_TABLE)


def _shown(joint: Joint, tables: Tables) -> str:
    return ".".join(tables.named(joint))


@dataclass
class _Node:
    """A path: its writer, the first writer of it or of a path below, and the first of these that a reader sees."""

    writer: Joint | None = None
    within: Joint | None = None
    seen: Joint | None = None
    parts: dict[str, _Node] = field(default_factory=dict)


class _Writers:
    """A tree of the locations that joints write."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, joint: Joint, locations: Iterable[Location]) -> None:
        """Add the locations that a joint writes; the first writer of a location stays."""
        for parts in locations:
            # A reader of a folder does not see hidden files and folders in it.
            hidden = max((n for n, part in enumerate(parts, 1) if part.startswith(".")), default=0)
            node = self._root
            for depth, part in enumerate(parts):
                node.within = node.within or joint
                node.seen = node.seen or (joint if depth >= hidden else None)
                node = node.parts.setdefault(part, _Node())
            node.writer = node.within = node.seen = node.writer or joint

    def at(self, locations: Iterable[Location]) -> Joint | None:
        """Return a joint that writes one of these locations, or one above or below it."""
        for location in locations:
            node: _Node | None = self._root
            for part in location:
                node = node.parts.get(part) if node is not None else None
                if node is not None and node.writer is not None:
                    return node.writer
            if node is not None and node.within is not None:
                return node.within
        return None

    def read_at(self, locations: Iterable[Location]) -> Joint | None:
        """Return a joint whose written rows a read of one of these locations includes."""
        for location in locations:
            nodes = [self._root]
            for part in location:
                nodes = [inner for node in nodes for inner in _matching(node, part)]
                writer = next((node.writer for node in nodes if node.writer is not None), None)
                if writer is not None:
                    return writer
            reached = next((node.seen for node in nodes if node.seen is not None), None)
            if reached is not None:
                return reached
        return None


def _matching(node: _Node, part: str) -> Iterator[_Node]:
    if part in node.parts:
        yield node.parts[part]
    elif not _WILD.isdisjoint(part):
        for name, inner in node.parts.items():
            if name.startswith(".") == part.startswith(".") and fnmatchcase(name, part):
                yield inner
