"""The limits of a rendering: steps, the length of texts, the size of numbers, and time."""

from __future__ import annotations

import time
from typing import Any

from rivet_dagster.project.templating.words import TemplateError

MOST_STEPS = 300_000
"""The most steps of one rendering: passes of loops, items of lists, every 100 characters of a text; a call is five."""

STEPS_OF_A_CALL = 5

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
"""How many steps there are from one look at the time to the next."""


class Limits:
    """The steps that one rendering has taken, and when it has to end; other work on the machine does not count."""

    def __init__(self) -> None:
        self._steps = 0
        self._ticks = 0
        self._end = time.thread_time() + SECONDS

    def step(self, steps: int = 1) -> None:
        """Count steps. Raises TemplateError where they are too many, or take too long."""
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise TemplateError(f"takes more than {MOST_STEPS:,} steps")
        self.check_time()

    def check_time(self) -> None:
        """Raise TemplateError where the rendering takes too long; to ask for the time costs more than most steps."""
        self._ticks += 1
        if self._ticks % _TICKS == 0 and time.thread_time() > self._end:
            raise TemplateError(f"takes longer than {SECONDS} seconds")

    def text(self, length: int) -> None:
        """Count the steps of making a text of that length. Raises TemplateError where it is too long."""
        if length > LONGEST:
            raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
        self.step(1 + length // _CHARACTERS)

    def made(self, value: Any) -> Any:
        """Return a value that an operation has made. Raises TemplateError where it is too large."""
        if isinstance(value, str):
            self.text(len(value))
        elif isinstance(value, int) and value.bit_length() > LARGEST:
            raise TemplateError(f"makes a number of more than {LARGEST:,} bits")
        elif isinstance(value, list | tuple | dict):
            self.step(len(value))
        return value


def check_width(width: Any) -> None:
    """Raise TemplateError for a number that would fill up a text or list beyond WIDEST."""
    if isinstance(width, int | float) and abs(width) > WIDEST:
        raise TemplateError(f"fills up to {width:,}; the most is {WIDEST:,}")
