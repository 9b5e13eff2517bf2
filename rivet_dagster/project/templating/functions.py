"""The functions and values of templates that Jinja does not have, besides macros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import LONGEST_NAME
from rivet_dagster.model.text_lines import MacroCall, TextPlace
from rivet_dagster.project.templating.budget import SMALL, Budget
from rivet_dagster.project.templating.markers import Markers
from rivet_dagster.project.templating.values import Bound, Function, Returned, unknown
from rivet_dagster.project.templating.words import (
    CONDITIONS,
    OF_A_JOINT,
    RETURN,
    RUN_STARTED_AT,
    THIS,
    VAR,
    WATERMARK,
    Meaning,
    TemplateError,
    Word,
)

_MISSING: Any = object()


class Rendering:
    """The state of one rendering: what is left of the budget, the place at hand, and the calls that led there."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.budget = Budget()
        self.markers = Markers()
        self.place = TextPlace(1)
        self.calls: tuple[MacroCall, ...] = ()
        self.depth = 0
        self.calls_at_error: tuple[MacroCall, ...] | None = None

    def word(self, name: str, argument: str | None) -> Word:
        """Return a word at the place at hand."""
        return Word(name, argument, replace(self.place, calls=self.calls))

    def written(self, name: str, argument: str | None) -> str:
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
        return self.known(args[0]) if args else None

    def known(self, name: str) -> str:
        """Return a name. Raises TemplateError where a value that only a run knows is a part of it."""
        shown = self.markers.shown_in(name)
        if shown is not None:
            raise unknown(shown)
        return str.__str__(name)


class Functions:
    """The functions, which ask ``rendering`` for the state of the rendering at hand."""

    def __init__(self, rendering: Callable[[], Rendering], variables: Mapping[str, Any], bound: frozenset[str]) -> None:
        self._rendering, self._variables, self._bound = rendering, variables, bound

    def by_name(self) -> dict[str, Function | WordValue]:
        """Return the functions and values by name."""
        functions: dict[str, Callable[..., Any]] = {
            "range": self._range,
            "dict": lambda *args, **kwargs: dict(*args, **kwargs),
            VAR: self._var,
            RETURN: self._return,
        }
        for name in CONDITIONS:
            functions[name] = lambda *args, name=name, **kwargs: self._condition(name, args, kwargs)
        for name in OF_A_JOINT:
            functions[name] = lambda *args, name=name, **kwargs: self._joint(name, args, kwargs)
        values = {name: WordValue(self._rendering, name) for name in (WATERMARK, THIS, RUN_STARTED_AT)}
        return {name: Function(name, run) for name, run in functions.items()} | values

    def _range(self, *args: Any) -> list[int]:
        numbers = range(*args)
        if max(numbers.start.bit_length(), numbers.stop.bit_length()) > SMALL:
            raise TemplateError(f"counts to a number of more than {SMALL} bits")
        self._rendering().budget.iterate(numbers)
        return list(numbers)

    def _var(self, name: Any = None, default: Any = _MISSING, *others: Any, **named: Any) -> Any:
        if not isinstance(name, str) or others or named:
            raise TemplateError("gives var something else than one name in quotes: var('name')")
        name = self._rendering().known(name)
        if name in self._bound:
            return WordValue(self._rendering, VAR, name)
        if name in self._variables:
            self._rendering().budget.weigh(self._variables[name])
            return _copied(self._variables[name])
        if default is not _MISSING:
            return default
        raise TemplateError(f"does not know the variable '{name}'{nearest(name, {*self._variables, *self._bound})}")

    def _return(self, value: Any = None) -> None:
        if not self._rendering().calls:
            raise TemplateError("returns outside of a macro")
        raise Returned(value)

    def _condition(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        rendering = self._rendering()
        return rendering.meaning.holds(rendering.word(name, rendering.argument(name, args, kwargs)))

    def _joint(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        rendering = self._rendering()
        return rendering.meaning.text(rendering.word(name, rendering.argument(name, args, kwargs)))


def _copied(value: Any) -> Any:
    """Return plain data with lists and mappings of its own, which a template may change."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


class WordValue(Bound):
    """The value of a word, which a call may give an argument."""

    def __init__(self, rendering: Callable[[], Rendering], name: str, argument: str | None = None) -> None:
        shown = name if argument is None else f"{name}('{argument}')"
        super().__init__(shown, lambda: rendering().written(name, argument))
        self._rendering, self._name = rendering, name

    def called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> WordValue:
        """Return the value for the argument of a call."""
        if self._name in (RUN_STARTED_AT, VAR) and (args or kwargs):
            raise TemplateError(f"gives {self._name} something else than nothing in parentheses")
        if self._name == VAR:
            return self
        return WordValue(self._rendering, self._name, self._rendering().argument(self._name, args, kwargs))
