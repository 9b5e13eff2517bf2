"""The functions and values of templates that Jinja does not have, besides macros."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.model.text_lines import MacroCall, TextPlace
from rivet_dagster.project.templating.budget import Budget
from rivet_dagster.project.templating.values import Bound, Function, Returned
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


class Rendering:
    """The state of one rendering: what is left of the budget, the place at hand, and the calls that led there."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.budget = Budget()
        self.place = TextPlace(1)
        self.calls: tuple[MacroCall, ...] = ()
        self.depth = 0
        self.calls_at_error: tuple[MacroCall, ...] | None = None

    def word(self, name: str, argument: str | None) -> Word:
        """Return a word at the place at hand."""
        return Word(name, argument, replace(self.place, calls=self.calls))


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
        self._rendering().budget.spend(len(numbers))
        return list(numbers)

    def _var(self, name: Any = None, *default: Any) -> Any:
        if not isinstance(name, str) or len(default) > 1:
            raise TemplateError("gives var something else than one name in quotes: var('name')")
        if name in self._bound:
            return WordValue(self._rendering, VAR, str.__str__(name))
        if name in self._variables:
            return copy.deepcopy(self._variables[name])
        if default:
            return default[0]
        raise TemplateError(f"does not know the variable '{name}'{nearest(name, self._variables)}")

    def _return(self, value: Any = None) -> None:
        if not self._rendering().calls:
            raise TemplateError("returns outside of a macro")
        raise Returned(value)

    def _condition(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        rendering = self._rendering()
        return rendering.meaning.holds(rendering.word(name, _argument(name, args, kwargs)))

    def _joint(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        rendering = self._rendering()
        return rendering.meaning.text(rendering.word(name, _argument(name, args, kwargs)))


class WordValue(Bound):
    """The value of a word, which a call may give an argument."""

    def __init__(self, rendering: Callable[[], Rendering], name: str, argument: str | None = None) -> None:
        shown = name if argument is None else f"{name}('{argument}')"
        super().__init__(shown, lambda: rendering().meaning.text(rendering().word(name, argument)))
        self._rendering, self._name = rendering, name

    def called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> WordValue:
        """Return the value for the argument of a call."""
        if self._name in (RUN_STARTED_AT, VAR) and (args or kwargs):
            raise TemplateError(f"gives {self._name} something else than nothing in parentheses")
        return (
            self if self._name == VAR else WordValue(self._rendering, self._name, _argument(self._name, args, kwargs))
        )


def _argument(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    least = int(name in OF_A_JOINT)
    if kwargs or not least <= len(args) <= 1 or not all(isinstance(arg, str) for arg in args):
        raise TemplateError(f"gives {name} something else than one name in quotes: {name}('name')")
    return str.__str__(args[0]) if args else None
