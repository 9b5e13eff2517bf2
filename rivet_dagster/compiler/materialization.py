"""Joints that are stored between groups, and the way of rows from one group to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import EngineBoundary, Materialization
from rivet_dagster.compiler.reach import Reach

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
            if reach.reads(pair[1], joint.catalog):
                method = NATIVE_REFERENCE
            elif reach.takes_arrow(pair[1]) and reach.reads(pair[0], joint.catalog):
                method = ARROW_PASSTHROUGH
            else:
                message = (
                    f"its rows cannot cross from the engine '{pair[0]}' to '{pair[1]}', which '{consumer}' runs on"
                )
                diagnostics.error(joint, "RVT-328", message)
                continue
            edges[consumer].append(EngineBoundary(name, group, consumer, pair, method))
    return tuple([edge for group in order for edge in edges[group]])


def _readers(name: str, graph: Graph, fusion: Fusion) -> set[str]:
    """Return the groups that read a joint, in a query or a check."""
    readers = {fusion.groups[reader] for reader in graph.consumers[name]}
    return readers | {fusion.groups[judge] for judge in graph.judging[name]} if name in graph.judging else readers
