"""Pairs of a missing and an unexpected row that are nearly the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rivet_dagster.project_tests.results import NearRow, Row

_COMPARED = 100
"""How many rows of each side are compared with those of the other."""


def near_rows(
    missing: Sequence[Row], unexpected: Sequence[Row], same: Callable[[str, Any, Any], bool]
) -> tuple[NearRow, ...]:
    """Return pairs of rows that are the same in at least half of their columns, the most similar ones first.

    >>> near_rows([{"id": 1, "n": 2}], [{"id": 7, "n": 9}, {"id": 1, "n": 3}], lambda _, one, other: one == other)
    (NearRow(missing={'id': 1, 'n': 2}, unexpected={'id': 1, 'n': 3}, columns=('n',)),)
    """
    candidates = []
    for m, lost in enumerate(missing[:_COMPARED]):
        for u, found in enumerate(unexpected[:_COMPARED]):
            columns = tuple(name for name in lost if not same(name, lost[name], found[name]))
            if len(columns) * 2 <= len(lost):
                candidates.append((len(columns), m, u, columns))
    pairs = []
    taken: tuple[set[int], set[int]] = set(), set()
    for _, m, u, columns in sorted(candidates):
        if m not in taken[0] and u not in taken[1]:
            taken[0].add(m)
            taken[1].add(u)
            pairs.append(NearRow(missing[m], unexpected[u], columns))
    return tuple(pairs)
