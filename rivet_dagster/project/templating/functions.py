"""The functions and values of templates that Jinja does not have, besides macros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rivet_dagster.errors import nearest
from rivet_dagster.project.templating.rendering_state import RenderingState
from rivet_dagster.project.templating.values import Bound, Function, Returned
from rivet_dagster.project.templating.words import (
    CONDITIONS,
    OF_A_JOINT,
    RETURN,
    RUN_STARTED_AT,
    THIS,
    VAR,
    WATERMARK,
    TemplateError,
)

_MISSING: Any = object()


class Functions:
    """The functions, which ask ``rendering`` for the state of the rendering at hand."""

    def __init__(
        self, rendering: Callable[[], RenderingState], variables: Mapping[str, Any], bound: frozenset[str]
    ) -> None:
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
        self._rendering().limits.count(len(numbers))
        return list(numbers)

    def _var(self, name: Any = None, default: Any = _MISSING, *others: Any, **named: Any) -> Any:
        if not isinstance(name, str) or others or named:
            raise TemplateError("gives var something else than one name in quotes: var('name')")
        name = self._rendering().check_name(name)
        if name in self._bound:
            return WordValue(self._rendering, VAR, name)
        if name in self._variables:
            return self._rendering().limits.check_value(_copied(self._variables[name]))
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

    def __init__(self, rendering: Callable[[], RenderingState], name: str, argument: str | None = None) -> None:
        shown = name if argument is None else f"{name}('{argument}')"
        super().__init__(shown, lambda: rendering().write_word(name, argument))
        self._rendering, self._name = rendering, name

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> WordValue:
        """Return the value for the argument of a call."""
        if self._name in (RUN_STARTED_AT, VAR) and (args or kwargs):
            raise TemplateError(f"gives {self._name} something else than nothing in parentheses")
        if self._name == VAR:
            return self
        return WordValue(self._rendering, self._name, self._rendering().argument(self._name, args, kwargs))
