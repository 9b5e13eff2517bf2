"""Matching of two multisets of rows, and pairs of a missing and an unexpected row that are nearly the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from rivet_dagster.project_tests.results import NearRow, Row

R = TypeVar("R")


def matched(
    expected: Sequence[R],
    actual: Sequence[R],
    exact_part: Callable[[R], Hashable],
    close: Callable[[R, R], bool],
    approximate: bool,
) -> tuple[list[int], list[int]]:
    """Return the numbers of the expected rows without a partner, and of the actual ones; as many as can be have one.

    Only rows of the same ``exact_part`` can be partners; if not ``approximate`` all of these can.

    >>> near = lambda one, other: abs(one - other) <= 1
    >>> matched([1, 2], [3, 2], lambda row: None, near, True)
    ([], [])
    >>> matched([1, 1, 2], [1, 2, 2], lambda row: row, near, False)
    ([1], [2])
    """
    parts: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, rows in enumerate((expected, actual)):
        for number, row in enumerate(rows):
            parts.setdefault(exact_part(row), ([], []))[side].append(number)
    missing: list[int] = []
    unexpected: list[int] = []
    for wanted, found in parts.values():
        if approximate:
            partners = _partners(wanted, found, lambda e, a: close(expected[e], actual[a]))
        else:
            partners = dict(zip(found, wanted, strict=False))
        taken = set(partners.values())
        missing += [number for number in wanted if number not in taken]
        unexpected += [number for number in found if number not in partners]
    return sorted(missing), sorted(unexpected)


def _partners(wanted: Sequence[int], found: Sequence[int], close: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the partner in ``wanted`` of as many of ``found`` as can have one, by augmenting paths."""
    candidates = {row: [other for other in found if close(row, other)] for row in wanted}
    partner_of: dict[int, int] = {}
    partners: dict[int, int] = {}
    for start in wanted:
        reached_from: dict[int, int] = {}
        waiting, free = [start], None
        while waiting and free is None:
            row = waiting.pop()
            for other in candidates[row]:
                if other not in reached_from:
                    reached_from[other] = row
                    if other not in partners:
                        free = other
                        break
                    waiting.append(partners[other])
        while free is not None:  # each row of the path takes the next one's partner
            row = reached_from[free]
            before = partner_of.get(row)
            partner_of[row], partners[free] = free, row
            free = None if row == start else before
    return partners


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
