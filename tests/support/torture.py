"""What is tried at length by ``make torture`` alone: more random cases, and a kill at every place.

The tests of ``make test`` try some of them, so that nothing is left without a test. Between the two stand the tests
with the mark ``nightly``, and all cases but N of one with ``nightly(but=N)``, which ``make nightly`` tries.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TORTURE = "RIVET_TORTURE" in os.environ
"""Whether everything is tried."""


def at_length(test: T) -> T | None:
    """Return the test if everything is tried, else None, which pytest does not collect."""
    return test if TORTURE else None


def examples(few: int, many: int) -> int:
    """Return how many random cases a test tries."""
    return many if TORTURE else few


def some(cases: Sequence[T], few: int) -> Sequence[T]:
    """Return all of ``cases``, or ``few`` of them that are spread evenly, with the first and the last.

    >>> some("abcdefg", 3)
    ['a', 'd', 'g']
    """
    return list(cases) if TORTURE else spread(cases, few)


def spread(cases: Sequence[T], few: int) -> Sequence[T]:
    """Return ``few`` of ``cases`` that are spread evenly, with the first and the last."""
    if len(cases) <= few:
        return list(cases)
    if few == 1:
        return [cases[0]]
    return [cases[round(position * (len(cases) - 1) / (few - 1))] for position in range(few)]
