"""Hints for unknown names, fast where there are many known names and many unknown ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from rivet_dagster.errors import nearest

_COUNTED = 20_000
_COMPARED = 50


class NearNames:
    """Known names; an unknown name is compared only to those that share the most pairs of letters with it.

    The rarest pairs are counted first, and counting stops at a limit, so that the cost of a hint does not grow with the
    number of names.

    >>> names = NearNames(["orders", "customers", "order_items"])
    >>> names.hint("custmers"), names.hint("custmers", but="customers", listed=False), names.hint("x")
    ("; did you mean 'customers'?", '', '; known: customers, order_items, orders')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._unsorted = names

    def hint(self, name: str, but: str | None = None, *, listed: bool = True) -> str:
        """Return the hint of ``nearest`` for the names other than ``but``."""
        close = nearest(name, [known for known in self._alike(name) if known != but], listed=False)
        first = [known for known in self._names[:14] if known != but]  # `nearest` lists 12, and says if there are more
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
        names_by_pair: dict[str, list[str]] = {}
        for name in self._names:
            for pair in _pairs(name):
                names_by_pair.setdefault(pair, []).append(name)
        return names_by_pair


def _pairs(name: str) -> list[str]:
    """Return each pair of adjacent letters once, with marks for the beginning and the end of the name."""
    padded = f"^{name}$"
    return sorted({padded[start : start + 2] for start in range(len(padded) - 1)})
