"""The objects that only our templates have: functions, and values that are known when a run starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Undefined

from rivet_dagster.project.templating.limits import LONGEST
from rivet_dagster.project.templating.words import TemplateError
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
