"""Hints for wrong names where many names are known, and many may be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from rivet_dagster.errors import nearest

_COUNTED = 20_000
_COMPARED = 50


class NearNames:
    """Known names, of which only those that share the most pairs of letters with a wrong one are compared to it.

    The pairs that fewest names have are counted first, and no more than it takes to tell: what a hint costs does not
    grow with the names.

    >>> names = NearNames(["orders", "customers", "order_items"])
    >>> names.hint("custmers"), names.hint("custmers", but="customers", listed=False), names.hint("x")
    ("; did you mean 'customers'?", '', '; known: customers, order_items, orders')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._unsorted = names

    def hint(self, name: str, but: str | None = None, *, listed: bool = True) -> str:
        """What ``nearest`` says of the names other than ``but``."""
        close = nearest(name, [known for known in self._alike(name) if known != but], listed=False)
        first = [known for known in self._names[:14] if known != but]  # it shows 12 of them, and whether there are more
        return close or (nearest(name, first) if listed else "")

    def _alike(self, name: str) -> list[str]:
        shared: Counter[str] = Counter()
        counted = 0
        for names in sorted((self._having.get(pair, []) for pair in _pairs(name)), key=len):
            shared.update(names)
            counted += len(names)
            if counted >= _COUNTED:
                break
        return [known for known, _ in shared.most_common(_COMPARED)]

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self._unsorted)

    @cached_property
    def _having(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._names:
            for pair in _pairs(name):
                found.setdefault(pair, []).append(name)
        return found


def _pairs(name: str) -> list[str]:
    """Each pair of neighbours once, the name's beginning and end among them."""
    padded = f"^{name}$"
    return sorted({padded[place : place + 2] for place in range(len(padded) - 1)})
