"""Texts that remember from which lines of which templates they came; for a template they are texts like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rivet_dagster.model.text_lines import MacroCall, Stretch, TextPlace, place_of

_DEEPEST = 10
"""How many changes of a text, one upon another, are followed."""


class TracedText(str):
    """A text with its origin: ``place``, or the ``parts`` that it was joined from, which ``call`` has made.

    If it ``advances``, its second line came from the line below its ``place``, and so on. A text that was ``changed``
    from another has the other's lines, beginning with the one of this number.
    """

    place: TextPlace | None
    advances: bool
    parts: tuple[str, ...]
    call: MacroCall | None
    changed: tuple[TracedText, int] | None

    def __new__(
        cls,
        text: str,
        place: TextPlace | None = None,
        advances: bool = False,
        parts: tuple[str, ...] = (),
        call: MacroCall | None = None,
        changed: tuple[TracedText, int] | None = None,
    ) -> TracedText:
        traced = super().__new__(cls, text)
        traced.changed = changed
        traced.place, traced.advances, traced.parts, traced.call = place, advances, parts, call
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

    >>> text = TracedText("a\nb\nc", TextPlace(5), advances=True)
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

    >>> first, second = TracedText("a\nb\n", TextPlace(1), advances=True), TracedText("c\nd", TextPlace(7))
    >>> [(s.first, s.place.line) for s in lines_of(join_texts([first, second]))]
    [(1, 1), (3, 7), (4, 7)]
    """
    places: list[TextPlace | None] = [None]
    visible = False
    for part, place, advances in _parts(text, check_time, depth):
        for number, line in enumerate(part.split("\n")):
            if number:
                places.append(None)
                visible = False
            if line and place is not None and not visible and (line.strip() or places[-1] is None):
                places[-1] = replace(place, line=place.line + number) if advances else place
                visible = bool(line.strip())
    return tuple(_stretches(places))


def _parts(text: str, check_time: Callable[[], None], depth: int) -> Iterator[tuple[str, TextPlace | None, bool]]:
    """Yield the parts of a text in order, each with its place, if that is known, and all calls that led there."""
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
                place = _within(place_of(lines, max(first + number, lines[0].first)), calls) if lines else None
                yield ("\n" if number else "") + line, place, False
        elif not part.parts:
            yield part, None if part.place is None else _within(part.place, calls), part.advances
        waiting += [(each, calls) for each in reversed(part.parts)]


def _within(place: TextPlace, calls: tuple[MacroCall, ...]) -> TextPlace:
    return replace(place, calls=(*place.calls, *calls))


def _stretches(places: Iterable[TextPlace | None]) -> Iterator[Stretch]:
    current: Stretch | None = None
    for number, place in enumerate(places, 1):
        if place is None:
            continue  # an empty line belongs to those before it
        expected = replace(current.place, line=current.place.line + number - current.first) if current else None
        if place != expected:
            current = Stretch(number, place)
            yield current
