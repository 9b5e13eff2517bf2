"""Texts that remember from which lines of which templates they came; for a template they are texts like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rivet_dagster.model.text_lines import MacroCall, Stretch, TextLocation, locate_line

_DEEPEST = 10
"""How many changes of a text, one upon another, are followed."""


class TracedText(str):
    """A text with its origin: ``location``, or the ``parts`` that it was joined from, which ``call`` has made.

    If it ``advances``, its second line came from the line below its ``location``, and so on. A text that was
    ``changed`` from another has the other's lines, beginning with the one of this number.
    """

    location: TextLocation | None
    advances: bool
    parts: tuple[str, ...]
    call: MacroCall | None
    changed: tuple[TracedText, int] | None

    def __new__(
        cls,
        text: str,
        location: TextLocation | None = None,
        advances: bool = False,
        parts: tuple[str, ...] = (),
        call: MacroCall | None = None,
        changed: tuple[TracedText, int] | None = None,
    ) -> TracedText:
        traced = super().__new__(cls, text)
        traced.changed = changed
        traced.location, traced.advances, traced.parts, traced.call = location, advances, parts, call
        return traced

    def __str__(self) -> str:
        """Return the text itself, with its origin: Jinja converts everything that it writes."""
        return self


def join_texts(texts: Iterable[str]) -> str:
    """Return the texts as one, as Jinja's ``concat`` does."""
    parts = tuple(text for text in texts if text)  # empty ones have no line, and could double without end
    if len(parts) == 1 and isinstance(parts[0], TracedText):
        return parts[0]
    return TracedText("".join(parts), parts=parts)


def trace_change(text: Any, origin: Any) -> Any:
    r"""Return what a filter or method has made of another text, with its lines where they can be told.

    They can if there are as many as before, or if the text is a part of the other.

    >>> text = TracedText("a\nb\nc", TextLocation(5), advances=True)
    >>> [[(s.first, s.place.line) for s in lines_of(trace_change(part, text))] for part in ("a\nb", "b\nc", "other")]
    [[(1, 5)], [(1, 6)], []]
    """
    if not isinstance(text, str) or isinstance(text, TracedText) or not isinstance(origin, TracedText):
        return text
    if text.count("\n") == origin.count("\n"):
        return TracedText(text, changed=(origin, 1))
    at = origin.find(text)
    return TracedText(text, changed=(origin, 1 + origin.count("\n", 0, at))) if at >= 0 else text


def lines_of(text: str, check_time: Callable[[], None] = lambda: None, depth: int = 0) -> tuple[Stretch, ...]:
    r"""Return where the lines of a text came from; a line belongs to the first part with something visible on it.

    ``check_time`` is called for each part of it.

    >>> first, second = TracedText("a\nb\n", TextLocation(1), advances=True), TracedText("c\nd", TextLocation(7))
    >>> [(s.first, s.place.line) for s in lines_of(join_texts([first, second]))]
    [(1, 1), (3, 7), (4, 7)]
    """
    locations: list[TextLocation | None] = [None]
    visible = False
    for part, location, advances in _parts(text, check_time, depth):
        for number, line in enumerate(part.split("\n")):
            if number:
                locations.append(None)
                visible = False
            if line and location is not None and not visible and (line.strip() or locations[-1] is None):
                locations[-1] = replace(location, line=location.line + number) if advances and number else location
                visible = bool(line.strip())
    return tuple(_stretches(locations))


def _parts(text: str, check_time: Callable[[], None], depth: int) -> Iterator[tuple[str, TextLocation | None, bool]]:
    """Yield the parts of a text in order, each with its location, if that is known, and all calls that led there."""
    waiting: list[tuple[str, tuple[MacroCall, ...]]] = [(text, ())]
    while waiting:
        part, calls = waiting.pop()
        if not isinstance(part, TracedText):
            yield part, None, False
            continue
        check_time()
        if part.call is not None:
            calls = (part.call, *calls)
        if part.changed is not None and depth < _DEEPEST:
            origin, first = part.changed
            lines = lines_of(origin, check_time, depth + 1)
            for number, line in enumerate(part.split("\n")):
                location = _within(locate_line(lines, max(first + number, lines[0].first)), calls) if lines else None
                yield ("\n" if number else "") + line, location, False
        elif not part.parts:
            yield part, None if part.location is None else _within(part.location, calls), part.advances
        waiting += [(each, calls) for each in reversed(part.parts)]


def _within(location: TextLocation, calls: tuple[MacroCall, ...]) -> TextLocation:
    return replace(location, calls=(*location.calls, *calls)) if calls else location


def _stretches(locations: Iterable[TextLocation | None]) -> Iterator[Stretch]:
    current: Stretch | None = None
    for number, location in enumerate(locations, 1):
        if location is None:
            continue  # an empty line belongs to those before it
        expected = replace(current.place, line=current.place.line + number - current.first) if current else None
        if location != expected:
            current = Stretch(number, location)
            yield current
