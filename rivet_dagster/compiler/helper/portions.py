"""Portions of work that two processes share: whoever is free takes the next one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")

_LEAST = 40
"""The least number of items in a portion."""

_MOST = 1_000
"""The greatest number of portions: so many numbers always fit into a pipe."""

_WIDTH = 2


def portions(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Return the items in portions, in order.

    >>> [len(portion) for portion in portions(range(100))]
    [40, 40, 20]
    """
    size = max(_LEAST, -(-len(items) // _MOST))
    return [items[start : start + size] for start in range(0, len(items), size)]


class Numbers:
    """The numbers of portions, in a pipe from which both processes read them.

    >>> numbers = Numbers()
    >>> numbers.fill(3)
    >>> list(taken(numbers.reader))
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def fill(self, count: int) -> None:
        """Let the numbers below ``count`` be taken, and then no more."""
        os.write(self._writer, b"".join(number.to_bytes(_WIDTH, "big") for number in range(count)))
        os.close(self._writer)
        self._writer = -1

    def close(self) -> None:
        """Close the pipe."""
        for descriptor in {self.reader, self._writer} - {-1}:
            os.close(descriptor)


def taken(reader: int) -> Iterator[int]:
    """Yield the next number, as long as there are any; wait for the first one until they are filled in.

    A read of a pipe is atomic: no number is taken twice.
    """
    while number := os.read(reader, _WIDTH):
        yield int.from_bytes(number, "big")
