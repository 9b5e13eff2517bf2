"""The words of templates that speak of joints, of a run and of variables, besides Jinja's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rivet_dagster.model.text_lines import TextLocation

IS_INCREMENTAL, IS_SCD2 = "is_incremental", "is_scd2"
WATERMARK, THIS, RUN_STARTED_AT = "watermark_value", "this", "run_started_at"
REF, LANDING_ZONE = "ref", "landing_zone"
VAR, RETURN = "var", "return"

CONDITIONS = (IS_INCREMENTAL, IS_SCD2)
OF_A_JOINT = (REF, LANDING_ZONE)
OF_A_SINK = (*CONDITIONS, WATERMARK, THIS)
"""The words that refer to a published table: the joint's own, or that of the joint which their argument names."""


_LONGEST_MESSAGE = 1000


@dataclass(frozen=True)
class Word:
    """A word of a template, the name in its parentheses, and its location."""

    name: str
    argument: str | None
    location: TextLocation

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}('{self.argument}')"


class Meaning(Protocol):
    """Meanings of the words in one rendering."""

    def holds(self, word: Word) -> bool:
        """Return whether a condition holds."""

    def text(self, word: Word) -> str:
        """Return the SQL of any other word."""


class TemplateError(ValueError):
    """An error in a template; the message is the end of a sentence that begins with "the template".

    ``unknown`` says that a name is not known, as that of a macro whose file has errors. ``words`` were asked for before
    it was raised. A long message, as of a text that a template has made, is cut.
    """

    def __init__(self, message: str, location: TextLocation | None = None, unknown: bool = False) -> None:
        super().__init__(message)
        self.message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}..."
        self.location = location
        self.unknown = unknown
        self.words: tuple[Word, ...] = ()
