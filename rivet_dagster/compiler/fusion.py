"""Fusion: which joints run as one query, in groups with exactly one exit, and why the other joints are stored.

Joints that are stored between groups, and the way of rows from one group to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph, levels, topological
from rivet_dagster.compiler.plan import EngineBoundary, Materialization
from rivet_dagster.compiler.reach import Reach
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint

EAGER = "eager"
PYTHON_BOUNDARY = "python_boundary"
ASSERTION_BOUNDARY = "assertion_boundary"
MULTI_CONSUMER = "multi_consumer"
NON_DETERMINISTIC = "non_deterministic"
ENGINE_CHANGE = "engine_change"
DIALECT_CHANGE = "dialect_change"
PARTITION_BOUNDARY = "partition_boundary"
ERROR_BOUNDARY = "error_boundary"
TABLE = "table"
DEPTH = "depth"

DEFAULT_MAX_DEPTH = 40
"""The greatest depth of nested CTEs, including the joints' own; Spark's analyzer fails near 50."""


@dataclass(frozen=True)
class Fusion:
    """The group of each joint, named after its exit, and the reason for storing each stored SQL or Python joint."""

    groups: Mapping[str, str]
    reasons: Mapping[str, str]

    def members(self, graph: Graph) -> dict[str, tuple[str, ...]]:
        """Return each group's joints in topological order, the exit last."""
        members: dict[str, list[str]] = {}
        for name in graph.order:
            members.setdefault(self.groups[name], []).append(name)
        return {group: tuple(names) for group, names in members.items()}


def fuse_joints(graph: Graph, engines: Mapping[str, str], max_depth: Mapping[str, int]) -> Fusion:
    """Return the groups of an acyclic graph; ``max_depth`` is the limit of each engine.

    A joint that declares another mode of ``on_error`` than its group's exit is stored; one that declares none takes the
    exit's, and an exit that declares none fails.
    """
    reasons = _boundaries(graph, engines, max_depth)
    groups: dict[str, str] = {}
    for name in reversed(graph.order):
        joint, readers = graph.joints[name], graph.consumers[name]
        groups[name] = name
        if joint.type == SOURCE:
            # Within the group of one reader it would come after a joint of another group whose check reads it.
            targets = {groups[reader] for reader in (*readers, *graph.judging.get(name, ()))}
            if len(targets) == 1 and _source_fuses(name, graph, engines):
                groups[name] = targets.pop()
        elif len(readers) == 1:
            exit_name = groups[readers[0]]
            # The mode of a group is that of its exit, which is known only here.
            other_mode = joint.on_error is not None and joint.on_error.quarantines != _quarantines(
                graph.joints[exit_name]
            )
            if other_mode and reasons.get(name, DEPTH) in (TABLE, DEPTH):
                reasons[name] = ERROR_BOUNDARY
            if name not in reasons:
                groups[name] = exit_name
    return Fusion(groups, reasons)


def _boundaries(graph: Graph, engines: Mapping[str, str], max_depth: Mapping[str, int]) -> dict[str, str]:
    """Return the reason for which each stored SQL or Python joint with readers is stored."""
    reasons: dict[str, str] = {}
    repeatable: set[str] = set()
    depth: dict[str, int] = {}
    for name in graph.order:
        joint = graph.joints[name]
        upstream = [graph.joints[u] for u in graph.upstream[name]]
        for read in upstream:
            if read.type in (SQL, PYTHON) and read.name not in reasons:
                reason = _reason(read.name, name, graph, engines, repeatable)
                if reason is not None:
                    reasons[read.name] = reason
        if joint.type == SQL:
            renderings = graph.renderings(name)
            ctes = 1 + max([query.ctes for query in renderings])
            limit = max_depth[engines[name]]
            fused = [u.name for u in upstream if u.type == SQL and u.name not in reasons]
            for inner in fused:
                if ctes + depth[inner] > limit:
                    reasons[inner] = DEPTH
            fused = [inner for inner in fused if inner not in reasons]
            depth[name] = ctes + max([depth[inner] for inner in fused], default=0)
            repeats = repeatable.issuperset(fused) and all(query.deterministic for query in renderings)
            if repeats and not any(u.limit is not None for u in upstream):
                repeatable.add(name)
    return reasons


def _reason(name: str, reader: str, graph: Graph, engines: Mapping[str, str], repeatable: Set[str]) -> str | None:
    """Return the first rule, in the documented order, that keeps ``name`` out of its reader's query."""
    joint = graph.joints[name]
    readers = graph.consumers[name]
    if joint.eager:
        return EAGER
    if joint.type == PYTHON or PYTHON in [graph.joints[r].type for r in readers]:
        return PYTHON_BOUNDARY
    if joint.quality:
        return ASSERTION_BOUNDARY
    if len(readers) > 1 or name in graph.judging:
        return MULTI_CONSUMER
    if name not in repeatable and graph.times_read(name, reader) > 1:
        return NON_DETERMINISTIC
    if engines[reader] != engines[name]:
        return ENGINE_CHANGE
    if _dialects(name, graph) != _dialects(reader, graph):
        return DIALECT_CHANGE
    if not _same_partitions(joint, graph.joints[reader]):
        return PARTITION_BOUNDARY
    return TABLE if joint.publishes else None


def _dialects(name: str, graph: Graph) -> set[str | None]:
    """Return the SQL of a joint's query; of a sink, that of what it unites."""
    if graph.joints[name].type == SINK:
        return {query.dialect for before in graph.upstream[name] if (query := graph.queries.get(before)) is not None}
    return {graph.queries[name].dialect}


def _source_fuses(name: str, graph: Graph, engines: Mapping[str, str]) -> bool:
    if graph.joints[name].quality:
        return False
    joint, readers = graph.joints[name], [graph.joints[reader] for reader in graph.consumers[name]]
    return all(
        engines[r.name] == engines[name] and r.type in (SQL, SINK) and _same_partitions(joint, r) for r in readers
    )


def _quarantines(exit_joint: Joint) -> bool:
    return exit_joint.on_error is not None and exit_joint.on_error.quarantines


def _same_partitions(joint: Joint, reader: Joint) -> bool:
    """Return whether one window selects the rows of both; the partition columns may have different names."""
    if joint.partitions is None or reader.partitions is None:
        return joint.partitions is reader.partitions
    return joint.partitions.keys == reader.partitions.keys


def order_groups(graph: Graph, fusion: Fusion) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the groups in topological order, and by levels."""
    groups = fusion.groups
    edges: dict[str, set[str]] = {group: set() for group in groups.values()}
    for name, before in graph.before.items():
        group = groups[name]
        edges[group].update([groups[b] for b in before if groups[b] != group])
    order = topological(edges)
    return order, levels(edges, order)


NATIVE_REFERENCE = "native_reference"
ARROW_PASSTHROUGH = "arrow_passthrough"


def materializations(graph: Graph, fusion: Fusion, order: Sequence[str]) -> tuple[Materialization, ...]:
    """Return the stored joints in the order of their groups, each with the groups that read it."""
    stored = []
    position = {group: n for n, group in enumerate(order)}
    for name in order:
        if name in fusion.reasons:
            readers = _readers(name, graph, fusion)
            stored.append(Materialization(name, fusion.reasons[name], tuple(sorted(readers, key=position.__getitem__))))
    return tuple(stored)


def engine_boundaries(
    graph: Graph,
    fusion: Fusion,
    order: Sequence[str],
    engines: Mapping[str, str],
    reach: Reach,
    diagnostics: Diagnostics,
) -> tuple[EngineBoundary, ...]:
    """Return an entry for each edge between groups, in the order of the reading groups; report RVT-328.

    A group reads rows in place where its engine can. Else the engine that stored them, or that can read them in place,
    passes them on as Arrow.
    """
    edges: dict[str, list[EngineBoundary]] = {group: [] for group in order}
    for name in graph.order:
        group, joint = fusion.groups[name], graph.joints[name]
        for consumer in sorted(_readers(name, graph, fusion)):
            if consumer == group:
                continue
            pair = engines[name], engines[consumer]
            stored = f"the tables of '{reach.named(joint.catalog)}'"
            if reach.reads(pair[1], joint.catalog):
                method, reason = NATIVE_REFERENCE, f"'{pair[1]}' reads {stored} in place"
            elif reach.takes_arrow(pair[1]) and reach.reads(pair[0], joint.catalog):
                method, reason = ARROW_PASSTHROUGH, f"'{pair[1]}' does not read {stored}, and '{pair[0]}' does"
            else:
                message = (
                    f"its rows cannot cross from the engine '{pair[0]}' to '{pair[1]}', which '{consumer}' runs on"
                )
                diagnostics.error(joint, "RVT-328", message)
                continue
            edges[consumer].append(EngineBoundary(name, group, consumer, pair, method, reason))
    return tuple([edge for group in order for edge in edges[group]])


def _readers(name: str, graph: Graph, fusion: Fusion) -> set[str]:
    """Return the groups that read a joint, in a query or a check."""
    readers = {fusion.groups[reader] for reader in graph.consumers[name]}
    return readers | {fusion.groups[judge] for judge in graph.judging[name]} if name in graph.judging else readers
