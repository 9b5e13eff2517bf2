"""Texts that remember from which lines of which templates they came; for a template they are texts like any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rivet_dagster.model.text_lines import MacroCall, Stretch, TextPlace


class Traced(str):
    """A text with its origin: ``place``, or the ``parts`` that it was joined from, which ``call`` has made.

    If it ``advances``, its second line came from the line below its ``place``, and so on.
    """

    place: TextPlace | None
    advances: bool
    parts: tuple[str, ...]
    call: MacroCall | None

    def __new__(
        cls,
        text: str,
        place: TextPlace | None = None,
        advances: bool = False,
        parts: tuple[str, ...] = (),
        call: MacroCall | None = None,
    ) -> Traced:
        traced = super().__new__(cls, text)
        traced.place, traced.advances, traced.parts, traced.call = place, advances, parts, call
        return traced

    def __str__(self) -> str:
        """Return the text itself, with its origin: Jinja converts everything that it writes."""
        return self


def joined(texts: Iterable[str]) -> str:
    """Return the texts as one, as Jinja's ``concat`` does."""
    parts = tuple(texts)
    if len(parts) == 1 and isinstance(parts[0], Traced):
        return parts[0]
    return Traced("".join(parts), parts=parts)


def lines_of(text: str) -> tuple[Stretch, ...]:
    r"""Return where the lines of a text came from; a line belongs to the first part with something visible on it.

    >>> first, second = Traced("a\nb\n", TextPlace(1), advances=True), Traced("c\nd", TextPlace(7))
    >>> [(s.first, s.place.line) for s in lines_of(joined([first, second]))]
    [(1, 1), (3, 7), (4, 7)]
    """
    places: list[TextPlace | None] = [None]
    visible = False
    for part, place, advances in _parts(text, ()):
        for number, line in enumerate(part.split("\n")):
            if number:
                places.append(None)
                visible = False
            if line and place is not None and not visible and (line.strip() or places[-1] is None):
                places[-1] = replace(place, line=place.line + number) if advances else place
                visible = bool(line.strip())
    return tuple(_stretches(places))


def _parts(text: str, calls: tuple[MacroCall, ...]) -> Iterator[tuple[str, TextPlace | None, bool]]:
    """Yield the parts of a text in order, each with its place, if that is known, and all calls that led there."""
    if not isinstance(text, Traced):
        yield text, None, False
        return
    if text.call is not None:
        calls = (text.call, *calls)
    if not text.parts:
        place = text.place
        yield text, None if place is None else replace(place, calls=(*place.calls, *calls)), text.advances
    for part in text.parts:
        yield from _parts(part, calls)


def _stretches(places: Iterable[TextPlace | None]) -> Iterator[Stretch]:
    current: Stretch | None = None
    for number, place in enumerate(places, 1):
        if place is None:
            continue  # an empty line belongs to those before it
        expected = replace(current.place, line=current.place.line + number - current.first) if current else None
        if place != expected:
            current = Stretch(number, place)
            yield current
