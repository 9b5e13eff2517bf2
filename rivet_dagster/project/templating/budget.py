"""The limits of a rendering: of operations, of the size of texts and numbers, and of depth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rivet_dagster.project.templating.words import TemplateError

OPERATIONS = 300_000
"""The most operations of one rendering; reading or making 100 characters, or an item of a list, counts as one."""

LONGEST = 2_000_000
"""The most characters of a text."""

LARGEST = 4096
"""The most bits of a number."""

DEEPEST = 50
"""The most macros, or lists, that may stand within each other."""

SMALL = 60
"""The most bits of numbers of which no two have the same hash."""

_CHARACTERS = 100
_COMPARISONS = 1000
"""How many comparisons of characters count as an operation."""
_PARTS = 2
"""How many parts of what is repeated count as an operation."""
_CALL = 5
"""The operations of a call, besides what it does with its arguments."""
_LARGE = 100
"""The operations of a larger number: as a key it may have to be compared with all of its kind."""


class Budget:
    """The operations that a rendering has left."""

    def __init__(self, operations: int = OPERATIONS) -> None:
        self._left = operations

    def spend(self, operations: int) -> None:
        """Take ``operations`` off. Raises TemplateError if there are fewer left."""
        self._left -= operations
        if self._left < 0:
            self._left = 0
            raise TemplateError(f"takes more than {OPERATIONS:,} operations")

    def make(self, characters: int) -> None:
        """Take off what making a text, or a list, of that length costs. Raises TemplateError where it is too long."""
        if characters > LONGEST:
            raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
        self.spend(1 + characters // _CHARACTERS)

    def repeat(self, parts: int) -> None:
        """Take off what a pass through a loop or a macro of so many parts costs."""
        self.spend(1 + parts // _PARTS)

    def call(self, arguments: Iterable[Any]) -> None:
        """Take off what a call costs."""
        self.spend(_CALL)
        for argument in arguments:
            self.weigh(argument)

    def compare(self, text: Any, other: Any) -> None:
        """Take off what comparing all characters of a text with all of another costs; other values are none."""
        if isinstance(text, str) and isinstance(other, str):
            self.spend(len(text) * len(other) // _COMPARISONS)

    def search(self, text: str) -> None:
        """Take off what the search for any other text costs; a long one is found as fast as one of 100 characters."""
        self.spend(len(text) * _CHARACTERS // _COMPARISONS)

    def iterate(self, items: Any) -> None:
        """Take off what a pass through the characters of a text, or through other items, costs."""
        self.spend(1 + len(items))

    def weigh(self, value: Any, depth: int = 0) -> None:
        """Take off what reading all of ``value`` costs. Raises TemplateError where a part of it is too large."""
        if isinstance(value, str):
            self.make(len(value))
        elif isinstance(value, int):
            bits = value.bit_length()
            if bits > LARGEST:
                raise TemplateError(f"makes a number of more than {LARGEST:,} bits")
            self.spend(1 if bits <= SMALL else _LARGE)
        elif isinstance(value, list | tuple | dict):
            if depth > DEEPEST:
                raise TemplateError(f"nests lists more than {DEEPEST} deep")
            # As keys, tuples of few different items may all have one hash, and are compared with each other.
            self.spend(1 + (len(value) ** 2 + depth if isinstance(value, tuple) else 0))
            for item in value:
                self.weigh(item, depth + 1)
                if isinstance(value, dict):
                    self.weigh(value[item], depth + 1)
        else:
            self.spend(1)
