"""The joints as a graph: who reads whom, and how often."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.projection import projection


@dataclass(frozen=True, slots=True)
class TemplateNeeds:
    """What the texts of a template need of a run.

    ``sink`` is the one whose state decides between the two texts, None where there is one alone; ``watermark`` and
    ``this`` say whether the incremental text uses that sink's watermark and its published rows, ``run_started_at``
    whether either text uses the time at which the run began.
    """

    sink: str | None = None
    watermark: bool = False
    this: bool = False
    run_started_at: bool = False


@dataclass(frozen=True)
class Graph:
    """Joints by name with their resolved upstream.

    ``queries`` holds the SQL joints' queries, ``incremental`` those of templates for later runs where they are others,
    and ``templates`` what templates need; ``reads`` how often each joint's query evaluates each upstream, at most.
    """

    joints: Mapping[str, Joint]
    upstream: Mapping[str, tuple[str, ...]]
    queries: Mapping[str, KnownQuery]
    reads: Mapping[str, Mapping[str, int]]
    incremental: Mapping[str, KnownQuery] = field(default_factory=dict)
    templates: Mapping[str, TemplateNeeds] = field(default_factory=dict)

    def renderings(self, name: str) -> tuple[KnownQuery, ...]:
        """The queries that a SQL joint may be."""
        later = self.incremental.get(name)
        return (self.queries[name],) if later is None else (self.queries[name], later)

    def sql(self, name: str) -> str | None:
        """A SQL joint's own query or a source's projection; None for other joints."""
        joint = self.joints[name]
        if joint.type == SOURCE:
            return projection(name, joint.columns, joint.filter, joint.limit)
        return self.queries[name].text if name in self.queries else None

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """The joints that read each joint, by name."""
        return invert(self.upstream)

    def times_read(self, name: str, reader: str) -> int:
        """How often the query of ``reader`` evaluates ``name``; a reader that is no query reads it once."""
        return self.reads[reader].get(name, 1) if reader in self.reads else 1

    @cached_property
    def judged_with(self) -> dict[str, tuple[str, ...]]:
        """The other joints that the checks of each joint read, by name; joints whose checks read none are left out."""
        read = {name: {r for check in joint.quality for r in check.reads} for name, joint in self.joints.items()}
        return {name: tuple(sorted(names & self.joints.keys())) for name, names in read.items() if names}

    @cached_property
    def judging(self) -> dict[str, tuple[str, ...]]:
        """The joints whose checks read each joint, by name."""
        return invert(self.judged_with)

    @cached_property
    def before(self) -> dict[str, tuple[str, ...]]:
        """What must be there before each joint can be published: its upstream, and what its checks read."""
        return {name: names + self.judged_with.get(name, ()) for name, names in self.upstream.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The joints topologically, of those ready the least name first; those on a cycle are left out."""
        return topological(self.before)


def invert(edges: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """From "reads" to "is read by", sorted; every node has an entry.

    >>> invert({"a": (), "b": ("a",)})
    {'a': ('b',), 'b': ()}
    """
    found: dict[str, list[str]] = {name: [] for name in edges}
    for name, targets in edges.items():
        for target in targets:
            found.setdefault(target, []).append(name)
    return {name: tuple(sorted(readers)) for name, readers in found.items()}


def topological(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Nodes after all they read, of those ready the least first; nodes on or behind a cycle are missing.

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
    """The nodes of ``order`` by the longest way to them, each level sorted.

    >>> levels({"a": (), "b": ("a",), "c": ()}, ("a", "b", "c"))
    (('a', 'c'), ('b',))
    """
    level: dict[str, int] = {}
    for name in order:
        level[name] = 1 + max((level[t] for t in edges[name]), default=-1)
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in sorted(level):
        found[level[name]].append(name)
    return tuple(tuple(names) for names in found)


def find_cycles(edges: Mapping[str, Iterable[str]], order: Iterable[str]) -> list[tuple[str, ...]]:
    """Cycles without a common node, each as the names along it with the first repeated at the end.

    ``order`` is what ``topological`` tells of the edges.
    Where cycles cross, not all of them are found; where there are any, one is.

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
            # Behind a cycle every node has an upstream that is stuck too, so this walk ends on a cycle.
            name = min(t for t in edges[name] if t in stuck)
        if name in path:
            names = list(path)
            cycles.append((*names[names.index(name) :], name))
    return cycles
