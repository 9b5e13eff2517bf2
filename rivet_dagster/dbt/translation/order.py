"""The order of joints: what each one reads comes before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter


def in_order(refs: Mapping[str, Iterable[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the joints in an order, the least name first of those that are ready, and those in cycles with the cycle.

    >>> in_order({"b": ["a"], "a": [], "c": ["d"], "d": ["c"]})
    (['a', 'b'], {'c': ['c', 'd', 'c'], 'd': ['c', 'd', 'c']})
    """
    left = {name: [ref for ref in read if ref in refs] for name, read in refs.items()}
    cycles: dict[str, list[str]] = {}
    while True:
        sorter = TopologicalSorter(left)
        try:
            sorter.prepare()
            break
        except CycleError as error:
            found: list[str] = error.args[1]
            start = min(found)
            at = found.index(start)
            cycle = [*found[at:-1], *found[:at], start][::-1]
            for name in set(found):
                cycles[name] = cycle
                del left[name]
            left = {name: [ref for ref in read if ref in left] for name, read in left.items()}
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order, dict(sorted(cycles.items()))


def ancestors(name: str, refs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return what a joint is computed from, however far before it.

    >>> sorted(ancestors("c", {"c": ["b"], "b": ["a"]}))
    ['a', 'b']
    """
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for ref in refs.get(waiting.pop(), ()):
            if ref not in reached:
                reached.add(ref)
                waiting.append(ref)
    return reached
