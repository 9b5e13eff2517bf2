"""The limits of a rendering: of operations, of the size of texts and numbers, and of depth."""

from __future__ import annotations

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

_CHARACTERS = 100


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

    def weigh(self, value: Any, depth: int = 0) -> None:
        """Take off what reading all of ``value`` costs. Raises TemplateError where a part of it is too large."""
        if isinstance(value, str):
            self.make(len(value))
        elif isinstance(value, int):
            if value.bit_length() > LARGEST:
                raise TemplateError(f"makes a number of more than {LARGEST:,} bits")
            self.spend(1)
        elif isinstance(value, list | tuple | dict):
            if depth > DEEPEST:
                raise TemplateError(f"nests lists more than {DEEPEST} deep")
            self.spend(1 + len(value))
            for item in value:
                self.weigh(item, depth + 1)
                if isinstance(value, dict):
                    self.weigh(value[item], depth + 1)
        else:
            self.spend(1)
