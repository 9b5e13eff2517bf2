"""The state of one rendering, and the objects in it that only our templates have: functions, and values of words.

A value that is known only when a run starts is a marker until the text is complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Undefined

from rivet_dagster.model.convert import LONGEST_NAME
from rivet_dagster.model.text_lines import MacroCall, Stretch, TextLocation, locate_line
from rivet_dagster.project.templating.limits import LONGEST, Limits
from rivet_dagster.project.templating.words import OF_A_JOINT, THIS, Meaning, TemplateError, Word
from rivet_dagster.project.yaml_text import WrittenFloat


class Function:
    """A function that templates can call, but look into as little as into any other object."""

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        self.name = name
        self.run = run

    def __bool__(self) -> bool:
        raise TemplateError(f"asks for {self.name} without its parentheses: {self.name}()")


class MacroOfFile:
    """A macro of a file of macros, named before that file has been run: macros may call those of later files."""

    def __init__(self, name: str) -> None:
        self.name = name


class Hook:
    """A function that the compiled template calls, and that its author cannot name."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run


class Bound:
    """A value that a run binds: its name in the query can be written, and nothing can be asked about it."""

    def __init__(self, shown: str, write: Callable[[], str]) -> None:
        self.shown = shown
        self._write = write

    def __str__(self) -> str:
        return self._write()

    def _looked_at(self, *others: object) -> Any:
        raise self.unknown()

    __bool__ = __hash__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _looked_at
    __iter__ = __index__ = __neg__ = __pos__ = __radd__ = _looked_at

    def unknown(self) -> TemplateError:
        """Return the error of a template that needs the value to be rendered."""
        return unknown_value_error(self.shown)


def unknown_value_error(shown: str) -> TemplateError:
    """Return the error of a template that needs a value which only a run knows."""
    return TemplateError(f"asks for the value of {shown}, which only a run knows; it can only be written")


class Returned(Exception):
    """The value with which a macro returns."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


_DATA = (str, int, float, bool, type(None))


def text_of(value: Any) -> str:
    """Return the text of a value as Jinja writes it. Raises TemplateError for what is no data."""
    if isinstance(value, str | Bound | Undefined):  # an undefined value raises its own error, but one of an `if`
        return str(value)
    if isinstance(value, WrittenFloat):
        return value.written
    _characters_left(value, LONGEST)
    return str(value)


def format_value(value: Any) -> str:
    """Return what a template writes for a value: where Jinja writes words of Python, those of SQL."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else text_of(value)


def _characters_left(value: Any, most: int) -> int:
    """Return how many characters the text of a value, without its signs, leaves of the most that a text may have.

    Raises TemplateError where none are left, and for what is no data.
    """
    if most < 0:
        raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
    if isinstance(value, list | tuple):
        for item in value:
            most = _characters_left(item, most - 1)
    elif isinstance(value, dict):
        most = _characters_left([*value, *value.values()], most)
    elif isinstance(value, Undefined) and str(value) == "":
        raise TemplateError("writes a value that is not defined within a list")
    elif not isinstance(value, _DATA):
        hint = ": a call has parentheses" if isinstance(value, Function | MacroOfFile) else ""
        raise TemplateError(f"writes {describe(value)}{' within a list' if isinstance(value, Bound) else hint}")
    return most - (len(value) if isinstance(value, str) else 1)


def describe(value: Any) -> str:
    """Return what a value is, for a message."""
    if isinstance(value, Bound):
        return value.shown
    kinds = {"builtin_function_or_method": "a method", "type": "a type"}
    name = type(value).__name__
    if name in ("Function", "Macro", "MacroOfFile"):
        return f"{'the function' if name == 'Function' else 'the macro'} '{value.name}'"
    return kinds.get(name, f"an object of type {name}")


_FIRST, _LAST = 0xD800, 0xDFFF  # surrogates, which no file and no database holds
_MARKER = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_ENDS_A_VALUE = ":)]"
"""Characters after which a parameter would be a part of the value before it: `a[0]:name` is a path."""


class Markers:
    """The markers of one rendering: single characters that stand for values.

    No filter, slice or method can take a part of a marker, or change it into the name of another value; what it stands
    for is written when the text is complete, and only where it is a token of its own.
    """

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
        match = _MARKER.search(text)
        return self._meant[match[0]][0] if match is not None and match[0] in self._meant else None

    def describe(self, text: str) -> str:
        """Return a text for a message, in which values are told by their names."""
        return _MARKER.sub(lambda match: self._meant.get(match[0], ("?", ""))[0], text)

    def replace_all(self, text: str, lines: Sequence[Stretch]) -> str:
        """Return the complete text, with what the markers stand for. Raises TemplateError where one is joined to more.

        >>> markers = Markers()
        >>> value = markers.marker("var('day')", ":var_day")
        >>> markers.replace_all(f"SELECT {value}, {value}", ())
        'SELECT :var_day, :var_day'
        >>> markers.replace_all(f"SELECT {value}s", ())
        Traceback (most recent call last):
            ...
        rivet_dagster.project.templating.words.TemplateError: joins 's' to var('day'), which would name another value
        """
        size = len(text)
        for match in _MARKER.finditer(text):
            problem = self._problem(text, match.start())
            if problem is not None:
                raise TemplateError(problem, locate_line(lines, text.count("\n", 0, match.start()) + 1))
            size += len(self._meant[match[0]][1]) - 1
        if size > LONGEST:
            raise TemplateError(f"makes a text of more than {LONGEST:,} characters")
        return _MARKER.sub(lambda match: self._meant[match[0]][1], text)

    def _problem(self, text: str, at: int) -> str | None:
        if text[at] not in self._meant:
            return f"writes the character U+{ord(text[at]):X}, which is no text"
        before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
        for neighbour, others in ((before, _ENDS_A_VALUE), (after, "")):
            if neighbour and (_of_a_name(neighbour) or neighbour in others):
                joined = self.describe(neighbour) if _MARKER.fullmatch(neighbour) else f"'{neighbour}'"
                return f"joins {joined} to {self._meant[text[at]][0]}, which would name another value"
        return None


def _of_a_name(character: str) -> bool:
    return _MARKER.fullmatch(character) is not None or f"a{character}".isidentifier()


class RenderingState:
    """The state of one rendering: its limits, the location at hand, and the calls that led there."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.limits = Limits()
        self.markers = Markers()
        self.location = TextLocation(1)
        self.calls: tuple[MacroCall, ...] = ()
        self.depth = 0
        self.calls_at_error: tuple[MacroCall, ...] | None = None

    def word(self, name: str, argument: str | None) -> Word:
        """Return a word at the location at hand."""
        return Word(name, argument, replace(self.location, calls=self.calls))

    def write_word(self, name: str, argument: str | None) -> str:
        """Return what is written for a word: the name of a table, or the marker of a value."""
        word = self.word(name, argument)
        text = self.meaning.text(word)
        return text if name == THIS else self.markers.marker(str(word), text)

    def argument(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """Return the argument of a word, a name as it stands in the template. Raises TemplateError for others."""
        least = int(name in OF_A_JOINT)
        if kwargs or not least <= len(args) <= 1 or not all(isinstance(arg, str) for arg in args):
            raise TemplateError(f"gives {name} something else than one name in quotes: {name}('name')")
        if args and len(args[0]) > LONGEST_NAME:
            raise TemplateError(f"gives {name} a name of more than {LONGEST_NAME} characters")
        return self.check_name(args[0]) if args else None

    def check_name(self, name: str) -> str:
        """Return a name. Raises TemplateError where a value that only a run knows is a part of it."""
        shown = self.markers.shown_in(name)
        if shown is not None:
            raise unknown_value_error(shown)
        return str.__str__(name)
