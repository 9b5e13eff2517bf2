"""The limits of a rendering: operations, the length of texts, the size of numbers, and time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rivet_dagster.project.templating.words import TemplateError

MOST_OPERATIONS = 300_000
"""The most operations of one rendering: passes of loops, items of lists, 100 characters of texts; a call is five."""

OPERATIONS_OF_A_CALL = 5

LONGEST = 2_000_000
"""The most characters of a text."""

LARGEST = 4096
"""The most bits of a number."""

DEEPEST = 50
"""The most macros that may call each other."""

WIDEST = 1000
"""The largest number of characters, or of items, to which a method or filter may fill up."""

MOST_TAGS = 10_000
"""The most blocks, expressions and comments in one template."""

SECONDS = 5
"""The most seconds of computing, for what the other limits do not see."""

_CHARACTERS = 100
_TICKS = 32
"""How many operations there are from one look at the time to the next."""


class Limits:
    """The operations that one rendering has taken, and when it has to end; other work on the machine does not count."""

    def __init__(self) -> None:
        self._operations = 0
        self._ticks = 0
        self._end = time.thread_time() + SECONDS

    def count(self, operations: int = 1) -> None:
        """Count operations. Raises TemplateError where they are too many, or take too long."""
        self._operations += operations
        if self._operations > MOST_OPERATIONS:
            raise TemplateError(f"takes more than {MOST_OPERATIONS:,} operations")
        self.check_time()

    def check_time(self) -> None:
        """Raise TemplateError where the rendering takes too long; few calls look at the time, which is slow."""
        self._ticks += 1
        if self._ticks % _TICKS == 0 and time.thread_time() > self._end:
            raise TemplateError(f"takes longer than {SECONDS} seconds")

    def check_length(self, length: int) -> None:
        """Count the operations of making a text of that length. Raises TemplateError where it is too long."""
        if length > LONGEST:
            raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
        self.count(1 + length // _CHARACTERS)

    def check_value(self, value: Any) -> Any:
        """Return a value that an operation has made. Raises TemplateError where it is too large."""
        if isinstance(value, str):
            self.check_length(len(value))
        elif isinstance(value, int) and value.bit_length() > LARGEST:
            raise TemplateError(f"makes a number of more than {LARGEST:,} bits")
        elif isinstance(value, list | tuple | dict):
            self.count(len(value))
        return value


def check_widths(widths: Iterable[Any]) -> None:
    """Raise TemplateError for a number that would fill up a text or list beyond WIDEST."""
    for width in widths:
        if isinstance(width, int | float) and abs(width) > WIDEST:
            raise TemplateError(f"fills up to {width:,}; the most is {WIDEST:,}")
