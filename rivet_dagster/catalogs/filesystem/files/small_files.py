"""Small files: when a write has left too many of them, and into how many they are joined."""

from __future__ import annotations

from collections.abc import Sequence

MANY = 16
"""A write may leave as many files of any size: fewer are not worth a second look."""
SMALL, FULL = 8 * 2**20, 128 * 2**20
"""Bytes of a file that is small, and of one as readers like them: a task of Spark reads as much."""


def joined_count(sizes: Sequence[int]) -> int | None:
    """Return how many files are to be made of files of these ``sizes``, in bytes; None if they are to stay.

    >>> joined_count([2000] * 40), joined_count([5 * 2**20] * 200)
    (1, 8)
    >>> joined_count([2000] * 16), joined_count([8 * 2**20] * 200)
    (None, None)
    """
    total = sum(sizes)
    if len(sizes) <= MANY or total >= SMALL * len(sizes):
        return None
    return -(-total // FULL) or 1
