"""One table, one writer: however its catalogs and names are spelled, and nobody reads what the project writes there."""

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
"""The storage of which nobody knows more than the names."""

_WILD = frozenset("*?[")
_OTHER_TABLE = "Give the sink another table, or name another catalog as the profile's `workspace`."


@dataclass(frozen=True)
class Tables:
    """Where the joints' tables lie, as far as the names in the profile tell, and ``resolved`` on this machine."""

    profile: Profile
    plugins: Plugins
    resolved: Resolved = field(default_factory=dict)
    _found: dict[str, tuple[Location, ...]] = field(default_factory=dict, init=False, compare=False)

    def of(self, joint: Joint) -> tuple[Location, ...]:
        """The locations that a source reads or another joint writes, in the workspace where it is no sink."""
        if joint.name not in self._found:
            self._found[joint.name] = tuple(self._of(*self.named(joint), joint.type == SOURCE))
        return self._found[joint.name]

    def named(self, joint: Joint) -> tuple[str, str]:
        """The names of a joint's catalog and table."""
        if joint.type in (SOURCE, SINK):
            return str(joint.catalog), str(joint.table)
        return self.profile.workspace, joint.name

    def in_workspace(self, table: str) -> tuple[Location, ...]:
        """The locations of a table of the workspace."""
        return tuple(self._of(self.profile.workspace, table, is_read=False))

    def _of(self, catalog: str, table: str, is_read: bool) -> Iterator[Location]:
        yield _NAMED, catalog, escape(table.rstrip("/").lower())
        spec = self.profile.catalog(catalog)
        traits = self.plugins.catalogs.get(spec.type) if spec else None
        told: Iterable[Location] = self.resolved.get((catalog, table), ())
        if spec and traits:
            where = traits.read_locations if is_read else traits.written_locations
            told = (*where(spec.options, table), *told)
        # Letter case tells no places apart: some file systems and databases do not either.
        yield from (tuple(map(str.lower, location)) for location in told)


def check_tables(graph: Graph, tables: Tables, found: Diagnostics) -> None:
    """RVT-310 for two sinks that write one table, or one within the other's, and for a source that reads such a one."""
    writers = _Writers()
    for joint in graph.joints.values():
        if joint.type == SINK:
            other = writers.at(tables.of(joint))
            if other is not None:
                message = f"sink '{other.name}' writes the table {_shown(other, tables)} already"
                _refuse(joint, other, message, None, tables, found)
            elif str(joint.table).lower().startswith(KEPT):
                _check_external(joint, tables, found)
            writers.add(joint, tables.of(joint))
    _check_sources(graph, tables, writers, found)


def check_stored_tables(graph: Graph, tables: Tables, stored: Collection[str], found: Diagnostics) -> None:
    """RVT-310 for a sink, or a source, on a table of the workspace where one of the joints ``stored`` is published."""
    writers = _Writers()
    for joint in graph.joints.values():
        if joint.name in stored and joint.type not in (SOURCE, SINK):
            writers.add(joint, tables.of(joint))
    for joint in graph.joints.values():
        other = writers.at(tables.of(joint)) if joint.type == SINK else None
        if other is not None:
            message = f"the joint '{other.name}' is stored between groups as {_shown(other, tables)}"
            _refuse(joint, other, message, _OTHER_TABLE, tables, found)
    _check_sources(graph, tables, writers, found)


def share(these: Collection[Location], those: Collection[Location]) -> bool:
    """Whether something lies in one of the locations on either side.

    >>> share([("raw", "*.csv")], [("raw", "a.csv")]), share([("raw", "*.csv")], [("raw", "a")])
    (True, False)
    """
    return any(all(map(_fits, one, other)) for one in these for other in those)


def _fits(one: str, other: str) -> bool:
    return one == other or fnmatchcase(one, other) or fnmatchcase(other, one)


def _refuse(
    sink: Joint, other: Joint, message: str, remediation: str | None, tables: Tables, found: Diagnostics
) -> None:
    if _shown(sink, tables).lower() != _shown(other, tables).lower():
        message += f", and {_shown(sink, tables)} shares its folder"
    found.error(sink, "RVT-310", message, "table", remediation)


def _check_sources(graph: Graph, tables: Tables, writers: _Writers, found: Diagnostics) -> None:
    for joint in graph.joints.values():
        writer = writers.read_at(tables.of(joint)) if joint.type == SOURCE else None
        if writer is None:
            continue
        if writer.type == SINK:
            what = f"what the sink '{writer.name}' writes"
            instead = " and ".join(graph.upstream[writer.name]) or writer.name
        else:
            what, instead = f"what is stored of the joint '{writer.name}'", writer.name
        name, place = _shown(joint, tables), _shown(writer, tables)
        which = f"{name} is {what}" if name.lower() == place.lower() else f"{name} holds {what} as {place}"
        found.error(joint, "RVT-310", f"{which}: read {instead} instead", "table")


def _check_external(sink: Joint, tables: Tables, found: Diagnostics) -> None:
    """Refuse a sink among the tables of what other Dagster assets return."""
    stored_at = _Writers()
    stored_at.add(sink, tables.in_workspace(str(sink.table)))
    if stored_at.at(tables.of(sink)) is not None:
        message = f"names that begin with {KEPT} are those of what other Dagster assets return, in the workspace"
        found.error(sink, "RVT-310", message, "table", _OTHER_TABLE)


def _shown(joint: Joint, tables: Tables) -> str:
    return ".".join(tables.named(joint))


@dataclass
class _Node:
    """A place: who writes it, who is the first to write it or something within, and who of these a reader comes to."""

    writer: Joint | None = None
    within: Joint | None = None
    seen: Joint | None = None
    parts: dict[str, _Node] = field(default_factory=dict)


class _Writers:
    """Joints by the places that they write."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, joint: Joint, locations: Iterable[Location]) -> None:
        """Note what a joint writes; whoever came first stays."""
        for parts in locations:
            # Who reads a folder passes over what is hidden in it.
            hidden = max((n for n, part in enumerate(parts, 1) if part.startswith(".")), default=0)
            node = self._root
            for depth, part in enumerate(parts):
                node.within = node.within or joint
                node.seen = node.seen or (joint if depth >= hidden else None)
                node = node.parts.setdefault(part, _Node())
            node.writer = node.within = node.seen = node.writer or joint

    def at(self, locations: Iterable[Location]) -> Joint | None:
        """Who writes one of these places, or something around or within it."""
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
        """Who writes what is read from one of these places."""
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
