"""What is stored between groups and when it may go, and how rows cross from group to group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import EngineBoundary, Materialization
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.kept import DAGSTER
from rivet_dagster.model.profile import Profile

NATIVE_REFERENCE = "native_reference"
ARROW_PASSTHROUGH = "arrow_passthrough"


def materializations(graph: Graph, fusion: Fusion, order: Sequence[str]) -> tuple[Materialization, ...]:
    """The stored joints in the order of their groups, each with the groups that read it."""
    found = []
    place = {group: n for n, group in enumerate(order)}
    for name in order:
        if name in fusion.reasons:
            readers = _readers(name, graph, fusion)
            found.append(Materialization(name, fusion.reasons[name], tuple(sorted(readers, key=place.__getitem__))))
    return tuple(found)


def engine_boundaries(
    graph: Graph, fusion: Fusion, order: Sequence[str], engines: Mapping[str, str], profile: Profile
) -> tuple[EngineBoundary, ...]:
    """One entry for each edge between groups, in the order of the reading groups."""
    edges: dict[str, list[EngineBoundary]] = {group: [] for group in order}
    for name in graph.order:
        for consumer in sorted(_readers(name, graph, fusion) - {fusion.groups[name]}):
            pair = engines[name], engines[consumer]
            catalog = graph.joints[name].catalog if graph.joints[name].type == SOURCE else profile.workspace
            method = NATIVE_REFERENCE if _reaches(profile, pair[1], catalog) else ARROW_PASSTHROUGH
            edges[consumer].append(EngineBoundary(name, fusion.groups[name], consumer, pair, method))
    return tuple(edge for group in order for edge in edges[group])


def _readers(name: str, graph: Graph, fusion: Fusion) -> set[str]:
    """The groups that read a joint, by a query or by a check."""
    return {fusion.groups[reader] for reader in (*graph.consumers[name], *graph.judging.get(name, ()))}


def _reaches(profile: Profile, engine_name: str, catalog: str | None) -> bool:
    engine = profile.engine(engine_name)
    # What other Dagster assets return is kept in the workspace.
    return engine is not None and catalog in (*engine.catalogs, profile.workspace, DAGSTER)
