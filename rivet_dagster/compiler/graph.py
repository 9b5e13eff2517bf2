"""The graph of joints: which joint reads which, and how often."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.sql.parsing.known_query import KnownQuery
from rivet_dagster.sql.source_query import projection


@dataclass(frozen=True, slots=True)
class TemplateNeeds:
    """Facts about a run that the queries rendered from a template need.

    ``sink`` is the sink whose state decides between the first and the incremental query, None where there is only one
    query. ``watermark`` and ``this`` say whether the incremental query uses that sink's watermark and its published
    rows, ``run_started_at`` whether either query uses the start time of the run. ``variables`` are those
    whose values a run binds, by name.
    """

    sink: str | None = None
    watermark: bool = False
    this: bool = False
    run_started_at: bool = False
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Joints by name with their resolved upstream.

    ``queries`` holds the SQL joints' queries, ``incremental`` those of templates for incremental runs if they differ,
    and ``templates`` what templates need. ``reads`` is how often each joint's query evaluates each upstream, at most.
    """

    joints: Mapping[str, Joint]
    upstream: Mapping[str, tuple[str, ...]]
    queries: Mapping[str, KnownQuery]
    reads: Mapping[str, Mapping[str, int]]
    incremental: Mapping[str, KnownQuery] = field(default_factory=dict)
    templates: Mapping[str, TemplateNeeds] = field(default_factory=dict)

    def renderings(self, name: str) -> tuple[KnownQuery, ...]:
        """Return the query of a SQL joint, and its incremental one where there is one."""
        later = self.incremental.get(name)
        return (self.queries[name],) if later is None else (self.queries[name], later)

    def sql(self, name: str) -> str | None:
        """Return a SQL joint's own query or a source's projection; None for other joints."""
        joint = self.joints[name]
        if joint.type == SOURCE:
            return projection(name, joint.columns, joint.filter, joint.limit)
        return self.queries[name].text if name in self.queries else None

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """The joints that read each joint, by name."""
        return invert(self.upstream)

    def times_read(self, name: str, reader: str) -> int:
        """Return how often the query of ``reader`` evaluates ``name``; a reader without a query reads it once."""
        return self.reads[reader].get(name, 1) if reader in self.reads else 1

    @cached_property
    def judged_with(self) -> dict[str, tuple[str, ...]]:
        """The other joints that the checks of each joint read, by name; joints whose checks read none are left out."""
        checked = {name: joint.quality for name, joint in self.joints.items() if joint.quality}
        read = {name: {r for check in checks for r in check.reads} for name, checks in checked.items()}
        return {name: tuple(sorted(names & self.joints.keys())) for name, names in read.items() if names}

    @cached_property
    def judging(self) -> dict[str, tuple[str, ...]]:
        """The joints whose checks read each joint, by name."""
        return invert(self.judged_with)

    @cached_property
    def before(self) -> dict[str, tuple[str, ...]]:
        """The joints that must be published before each joint: its upstream, and those that its checks read."""
        judged_with = self.judged_with
        return {**self.upstream, **{name: self.upstream[name] + names for name, names in judged_with.items()}}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The joints in topological order, ties by name; joints on a cycle are left out."""
        return topological(self.before)


def invert(edges: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the sorted readers of each node, given what each node reads; every node has an entry.

    >>> invert({"a": (), "b": ("a",)})
    {'a': ('b',), 'b': ()}
    """
    readers_of: dict[str, list[str]] = {name: [] for name in edges}
    for name in sorted(edges):
        for target in edges[name]:
            readers_of.setdefault(target, []).append(name)
    return {name: tuple(readers) for name, readers in readers_of.items()}


def topological(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return each node after all nodes that it reads, ties by name; nodes on or downstream of a cycle are left out.

    >>> topological({"b": (), "a": ("b",), "c": ()})
    ('b', 'a', 'c')
    """
    reads = {name: {target for target in targets if target in edges} for name, targets in edges.items()}
    readers = invert(reads)
    waiting = {name: len(targets) for name, targets in reads.items()}
    ready = [name for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    return tuple(order)


def levels(edges: Mapping[str, Iterable[str]], order: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the nodes of ``order`` by the length of the longest path to them, each level sorted.

    >>> levels({"a": (), "b": ("a",), "c": ()}, ("a", "b", "c"))
    (('a', 'c'), ('b',))
    """
    level: dict[str, int] = {}
    for name in order:
        level[name] = 1 + max([level[t] for t in edges[name]], default=-1)
    nodes: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in sorted(level):
        nodes[level[name]].append(name)
    return tuple(tuple(names) for names in nodes)


def find_cycles(edges: Mapping[str, Iterable[str]], order: Iterable[str]) -> list[tuple[str, ...]]:
    """Return disjoint cycles, each as the names along it with the first one repeated at the end.

    ``order`` is the result of ``topological`` for the edges. Where cycles share nodes, not all of them are found; where
    there is any, at least one is.

    >>> find_cycles({"a": ("b",), "b": ("a",), "c": ("a",), "d": ("d",), "e": ()}, ("e",))
    [('a', 'b', 'a'), ('d', 'd')]
    """
    stuck = set(edges) - set(order)
    seen: set[str] = set()
    cycles = []
    for start in sorted(stuck):
        path: dict[str, None] = {}
        name = start
        while name not in seen:
            seen.add(name)
            path[name] = None
            # Downstream of a cycle every node has a stuck upstream, so this walk ends on a cycle.
            name = min(t for t in edges[name] if t in stuck)
        if name in path:
            names = list(path)
            cycles.append((*names[names.index(name) :], name))
    return cycles
