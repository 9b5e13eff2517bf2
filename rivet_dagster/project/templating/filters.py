"""Jinja's filters and tests, but for those that are not pure, make HTML or look into objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import Environment
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.runtime import Context

from rivet_dagster.project.templating.budget import Budget
from rivet_dagster.project.templating.methods import join, percent, size_of_replaced, within
from rivet_dagster.project.templating.traced import changed
from rivet_dagster.project.templating.values import Bound, text_of
from rivet_dagster.project.templating.words import TemplateError

FILTERS = (
    "abs batch capitalize center count d default dictsort filesizeformat first float format groupby indent int items "
    "join last length list lower map max min reject rejectattr replace reverse round select selectattr slice sort "
    "string sum title trim truncate unique upper wordcount wordwrap"
).split()

_NOT_TESTS = ("callable", "escaped", "sameas")
_OF_ANYTHING = frozenset(("d", "default", "defined", "string", "undefined"))
"""Those that can be used on a value which only a run knows."""

_OF_WHOLE_TEXTS = frozenset(
    "capitalize center count d default first float format int join last length lower replace reverse string trim "
    "truncate upper".split()
)
"""Filters that take a text as a whole, or count its characters themselves; others look at one after another."""


def limited_filters(own: Mapping[str, Any], budget: Callable[[], Budget]) -> dict[str, Any]:
    """Return those of Jinja's ``own`` filters that templates know, within the ``budget`` of the rendering at hand."""
    return {name: _limited(name, own[name], budget, True) for name in FILTERS}


def limited_tests(own: Mapping[str, Any], budget: Callable[[], Budget]) -> dict[str, Any]:
    """Return those of Jinja's ``own`` tests that templates know, within the ``budget`` of the rendering at hand."""
    return {name: _limited(name, test, budget, False) for name, test in own.items() if name not in _NOT_TESTS}


def _limited(
    name: str, function: Callable[..., Any], budget: Callable[[], Budget], is_filter: bool
) -> Callable[..., Any]:
    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        value, *others = args[1:] if isinstance(args[0], Environment | Context | EvalContext) else args
        left = budget()
        left.spend(1)
        for given in (value, *others, *kwargs.values()):
            if isinstance(given, Bound) and not (given is value and name in _OF_ANYTHING):
                raise given.unknown()
            left.weigh(given)
        if not is_filter:
            if name == "in":
                left.compare(value, *others)
            return function(*args, **kwargs)
        if isinstance(value, str) and name not in _OF_WHOLE_TEXTS:
            left.iterate(value)
        if name in _COSTS:
            _COSTS[name](left, value, *others, **kwargs)
        if name == "format":
            return percent(text_of(value), kwargs or tuple(others), left)
        if name == "string":
            return text_of(value)
        if name == "join":
            return _joined(args[0].environment, value, left, *others, **kwargs)
        result = function(*args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        left.weigh(result)
        return changed(result, value, left.search)

    return limited


def _joined(environment: Environment, value: Any, budget: Budget, d: Any = "", attribute: Any = None) -> str:
    """Return the items of a value, or an attribute of each, as one text."""
    items = list(value)
    if attribute is not None:
        items = list(map(make_attrgetter(environment, attribute), items))
        budget.weigh(items)
    return join(text_of(d), items, budget)


# What filters cost besides reading and making texts; each takes the arguments of its filter


def _text(budget: Budget, value: Any, *others: Any, **named: Any) -> None:
    """Raise TemplateError for an object of which a filter would write the text, or that it would fill up too far."""
    text_of(value)
    within((*others, *named.values()))


def _filled(budget: Budget, value: Any, *others: Any, **named: Any) -> None:
    within((*others, *named.values()))


def _indent(budget: Budget, text: Any, width: Any = 4, *others: Any, **named: Any) -> None:
    within((width,))
    if isinstance(text, str):
        size = len(width) if isinstance(width, str) else int(width)
        budget.make(len(text) + (text.count("\n") + 1) * size)


def _replace(budget: Budget, text: Any, old: Any, new: Any, count: Any = None) -> None:
    budget.compare(text, old)
    budget.make(size_of_replaced(text, old, new))


def _round(budget: Budget, number: Any, precision: Any = 0, method: Any = None) -> None:
    if isinstance(precision, int) and abs(precision) > 300:
        raise TemplateError("rounds to more than 300 digits")


def _sum(budget: Budget, items: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TemplateError("sums up something else than numbers")


def _trim(budget: Budget, text: Any, chars: Any = None) -> None:
    budget.compare(text_of(text), chars)


def _wordwrap(
    budget: Budget,
    text: Any,
    width: Any = 79,
    break_long_words: Any = True,
    wrapstring: Any = None,
    break_on_hyphens: Any = True,
) -> None:
    """Take off what breaks after each character cost, of which each copies the rest of the text."""
    within((width,))
    budget.compare(text_of(text), text_of(text))
    budget.make(len(text_of(text)) * (1 + len(text_of(wrapstring or " "))))


_COSTS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("capitalize", "center", "lower", "title", "truncate", "upper", "wordcount"), _text),
    **dict.fromkeys(("batch", "slice"), _filled),
    "indent": _indent,
    "replace": _replace,
    "round": _round,
    "sum": _sum,
    "trim": _trim,
    "wordwrap": _wordwrap,
}
