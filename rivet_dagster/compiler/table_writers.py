"""The rule that each table has one writer, however it is named, and that no source reads what the project writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.tables import WILD, Tables, WrittenTable
from rivet_dagster.model.external_assets import KEPT
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.target import Location

_OTHER_TABLE = "Give it another table, or name another catalog as the profile's `workspace`."
_OTHER_ERRORS = "Give it another `errors_table`."
_ERRORS_ASSET = "An asset of your own may take the joint's key, with __errors behind it, as an input."


def check_tables(context: DeclaredContext) -> None:
    """Report RVT-310 for published tables that are equal or nested, and for a source that reads one of them.

    The error table of a joint counts as a table of it.
    """
    graph, tables, diagnostics = context.graph, context.tables, context.diagnostics
    writers = _Writers()
    for written in _own_tables_first((joint for joint in graph.joints.values() if joint.publishes), tables):
        other = writers.at(tables.at(written))
        if other is not None:
            content = "its errors to " if other.errors else ""
            writer = "sink" if other.joint.type == SINK else "joint"
            message = f"{writer} '{other.joint.name}' writes {content}the table {other} already"
            _refuse(written, other, message, None, diagnostics)
        elif written.table.lower().startswith(KEPT):
            _check_external(written, tables, diagnostics)
        writers.add(written, tables.at(written))
    _check_sources(graph, tables, writers, diagnostics)


def check_stored_tables(context: GroupsContext) -> None:
    """Report RVT-310 for a published joint or a source on a table of the workspace that holds another joint.

    Also for the error table of a stored joint that is the table of another one.
    """
    graph, tables, diagnostics = context.graph, context.tables, context.diagnostics
    stored = {name for name, group in context.fusion.groups.items() if name == group}
    writers = _Writers()
    joints = (j for j in graph.joints.values() if j.name in stored and j.type != SOURCE and not j.publishes)
    for written in _own_tables_first(joints, tables):
        other = writers.at(tables.at(written)) if written.errors else None
        if other is not None:
            _refuse(written, other, _stored(other), None, diagnostics)
        writers.add(written, tables.at(written))
    for written in _own_tables_first((joint for joint in graph.joints.values() if joint.publishes), tables):
        other = writers.at(tables.at(written))
        if other is not None:
            _refuse(written, other, _stored(other), _OTHER_TABLE, diagnostics)
    _check_sources(graph, tables, writers, diagnostics)


def _own_tables_first(joints: Iterable[Joint], tables: Tables) -> Iterator[WrittenTable]:
    """Yield the tables of the joints' rows, then those of their errors: it is the latter that a joint names freely."""
    known = list(joints)
    yield from map(tables.rows, known)
    yield from filter(None, map(tables.errors, known))


def _stored(other: WrittenTable) -> str:
    if other.errors:
        return f"the errors of the joint '{other.joint.name}' are stored as {other}"
    return f"the joint '{other.joint.name}' is stored between groups as {other}"


def _refuse(
    written: WrittenTable, other: WrittenTable, message: str, remediation: str | None, diagnostics: Diagnostics
) -> None:
    if written.joint is other.joint:
        message = f"its rows and their errors are both written to {written}"
    elif not written.errors and str(written).lower() != str(other).lower():
        message += f", and {written} shares its folder"
    _error(written, message, remediation, diagnostics)


def _error(written: WrittenTable, message: str, remediation: str | None, diagnostics: Diagnostics) -> None:
    if written.errors:
        message = message if str(written) in message else f"its error table is {written}: {message}"
        diagnostics.error(written.joint, "RVT-310", message, "on_error.errors_table", _OTHER_ERRORS)
    else:
        diagnostics.error(written.joint, "RVT-310", message, "table", remediation)


def _check_sources(graph: Graph, tables: Tables, writers: _Writers, diagnostics: Diagnostics) -> None:
    for joint in graph.joints.values():
        written = writers.read_at(tables.of(joint)) if joint.type == SOURCE else None
        if written is None:
            continue
        writer, remediation = written.joint, None
        if written.errors:
            content = f"the error table of '{writer.name}'"
            instead, remediation = "its asset", _ERRORS_ASSET
        elif writer.type == SINK:
            content = f"what the sink '{writer.name}' writes"
            instead = " and ".join(graph.upstream[writer.name]) or writer.name
        else:
            does = f"what the joint '{writer.name}' publishes"
            content = does if writer.publishes else f"what is stored of the joint '{writer.name}'"
            instead = writer.name
        name, table = _shown(joint, tables), str(written)
        which = f"{name} is {content}" if name.lower() == table.lower() else f"{name} holds {content} as {table}"
        diagnostics.error(joint, "RVT-310", f"{which}: read {instead} instead", "table", remediation)


def _check_external(written: WrittenTable, tables: Tables, diagnostics: Diagnostics) -> None:
    """Report a joint whose table is among those that hold the rows of external assets."""
    stored_at = _Writers()
    stored_at.add(written, tables.in_workspace(written.table))
    if stored_at.at(tables.at(written)) is not None:
        message = f"names that begin with {KEPT} are those of what other Dagster assets return, in the workspace"
        _error(written, message, _OTHER_TABLE, diagnostics)


def _shown(joint: Joint, tables: Tables) -> str:
    return ".".join(tables.named(joint))


@dataclass(slots=True)
class _Node:
    """A path: the table there, the first table there or below, and the first of these that a reader sees."""

    writer: WrittenTable | None = None
    within: WrittenTable | None = None
    seen: WrittenTable | None = None
    parts: dict[str, _Node] = field(default_factory=dict)


class _Writers:
    """A tree of the locations of the tables that joints write."""

    def __init__(self) -> None:
        self._root = _Node()
        self._folders: dict[tuple[tuple[str, ...], bool], _Node] = {}

    def add(self, written: WrittenTable, locations: Iterable[Location]) -> None:
        """Add the locations of a written table; the first writer of a location stays."""
        for parts in locations:
            tables = self._folder(parts, written).parts
            node = tables.get(parts[-1])
            if node is None:
                tables[parts[-1]] = _Node(written, written, written)
            else:
                node.writer = node.within = node.seen = node.writer or written

    def _folder(self, parts: Location, written: WrittenTable) -> _Node:
        """Return the node above a location; of all tables in a folder the first is the one to be found in it."""
        key = parts[:-1], parts[-1].startswith(".")
        if key not in self._folders:
            # A reader of a folder does not see hidden files and folders in it.
            hidden = max((n for n, part in enumerate(parts, 1) if part.startswith(".")), default=0)
            node = self._root
            for depth, part in enumerate(parts):
                node.within = node.within or written
                node.seen = node.seen or (written if depth >= hidden else None)
                if depth < len(parts) - 1:
                    node = node.parts.setdefault(part, _Node())
            self._folders[key] = node
        return self._folders[key]

    def at(self, locations: Iterable[Location]) -> WrittenTable | None:
        """Return a table that is written to one of these locations, or to one above or below it."""
        for location in locations:
            node: _Node | None = self._root
            for part in location:
                node = node.parts.get(part) if node is not None else None
                if node is not None and node.writer is not None:
                    return node.writer
            if node is not None and node.within is not None:
                return node.within
        return None

    def read_at(self, locations: Iterable[Location]) -> WrittenTable | None:
        """Return a written table whose rows a read of one of these locations includes."""
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
    elif not WILD.isdisjoint(part):
        for name, inner in node.parts.items():
            if name.startswith(".") == part.startswith(".") and fnmatchcase(name, part):
                yield inner
