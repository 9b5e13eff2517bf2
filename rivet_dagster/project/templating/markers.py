"""Markers: single characters that stand for values of words while a template is rendered.

No filter, slice or method can take a part of a marker, or change it into the name of another value; what it stands for
is written when the text is complete, and only where it is a token of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rivet_dagster.model.text_lines import Stretch, place_of
from rivet_dagster.project.templating.budget import LONGEST
from rivet_dagster.project.templating.words import TemplateError

_FIRST, _LAST = 0xD800, 0xDFFF  # surrogates, which no file and no database holds
_MARKER = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_ENDS_A_VALUE = ":)]"
"""Characters after which a parameter would be a part of the value before it: `a[0]:name` is a path."""


class Markers:
    """The markers of one rendering."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._meant: dict[str, tuple[str, str]] = {}

    def marker(self, shown: str, text: str) -> str:
        """Return the marker of a value that a message calls ``shown``, and for which ``text`` is written in the end."""
        meant = (shown, text)
        if meant not in self._known:
            if len(self._known) > _LAST - _FIRST:
                raise TemplateError(f"writes more than {len(self._known):,} values that only a run knows")
            marker = chr(_FIRST + len(self._known))
            self._known[meant], self._meant[marker] = marker, meant
        return self._known[meant]

    def shown_in(self, text: str) -> str | None:
        """Return what a message calls the first value in a text; None without any."""
        found = _MARKER.search(text)
        return self._meant[found[0]][0] if found is not None and found[0] in self._meant else None

    def described(self, text: str) -> str:
        """Return a text for a message, in which values are told by their names."""
        return _MARKER.sub(lambda found: self._meant.get(found[0], ("?", ""))[0], text)

    def written(self, text: str, lines: Sequence[Stretch]) -> str:
        """Return the complete text, with what the markers stand for. Raises TemplateError where one is joined to more.

        >>> markers = Markers()
        >>> value = markers.marker("var('day')", ":var_day")
        >>> markers.written(f"SELECT {value}, {value}", ())
        'SELECT :var_day, :var_day'
        >>> markers.written(f"SELECT {value}s", ())
        Traceback (most recent call last):
            ...
        rivet_dagster.project.templating.words.TemplateError: joins 's' to var('day'), which would name another value
        """
        size = len(text)
        for found in _MARKER.finditer(text):
            problem = self._problem(text, found.start())
            if problem is not None:
                raise TemplateError(problem, place_of(lines, text.count("\n", 0, found.start()) + 1))
            size += len(self._meant[found[0]][1]) - 1
        if size > LONGEST:
            raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
        return _MARKER.sub(lambda found: self._meant[found[0]][1], text)

    def _problem(self, text: str, at: int) -> str | None:
        if text[at] not in self._meant:
            return f"writes the character U+{ord(text[at]):X}, which is no text"
        before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
        for neighbour, others in ((before, _ENDS_A_VALUE), (after, "")):
            if neighbour and (_of_a_name(neighbour) or neighbour in others):
                joined = self.described(neighbour) if _MARKER.fullmatch(neighbour) else f"'{neighbour}'"
                return f"joins {joined} to {self._meant[text[at]][0]}, which would name another value"
        return None


def _of_a_name(character: str) -> bool:
    return _MARKER.fullmatch(character) is not None or f"a{character}".isidentifier()
