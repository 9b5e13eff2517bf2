"""Jinja's filters and tests, but for those that are not pure, make HTML or look into objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import Environment
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.runtime import Context

from rivet_dagster.project.templating.limits import Limits, check_widths
from rivet_dagster.project.templating.methods import check_replace, format_percent, join
from rivet_dagster.project.templating.traced import trace_change
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

_OF_ITEMS = frozenset("batch dictsort groupby list max min slice sort sum unique".split())
"""Filters that look at one character of a text after another."""

_OF_TEXTS = frozenset("capitalize center lower title trim truncate upper wordcount wordwrap".split())
"""Filters that write the text of what they get."""


def limit_filters(filters: Mapping[str, Any], limits: Callable[[], Limits]) -> dict[str, Any]:
    """Return those of Jinja's ``filters`` that templates know, within the ``limits`` of the rendering at hand."""
    return {name: _limit(name, filters[name], limits, True) for name in FILTERS}


def limit_tests(tests: Mapping[str, Any], limits: Callable[[], Limits]) -> dict[str, Any]:
    """Return those of Jinja's ``tests`` that templates know, within the ``limits`` of the rendering at hand."""
    return {name: _limit(name, test, limits, False) for name, test in tests.items() if name not in _NOT_TESTS}


def _limit(
    name: str, function: Callable[..., Any], limits_at_hand: Callable[[], Limits], is_filter: bool
) -> Callable[..., Any]:
    check = _CHECKS.get(name) if is_filter else None

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        value, *others = args[1:] if isinstance(args[0], Environment | Context | EvalContext) else args
        limits = limits_at_hand()
        limits.count()
        for argument in (value, *others, *kwargs.values()):
            if isinstance(argument, Bound) and not (argument is value and name in _OF_ANYTHING):
                raise argument.unknown()
        if not is_filter:
            return function(*args, **kwargs)
        if name in _OF_ITEMS and isinstance(value, str):
            limits.count(len(value))
        if name in _OF_TEXTS:
            text_of(value)  # raises an error for an object
        if check is not None:
            check(limits, value, *others, **kwargs)
        if name == "format":
            return format_percent(text_of(value), kwargs or tuple(others), limits)
        if name == "string":
            return text_of(value)
        if name == "join":
            return _joined(args[0].environment, value, limits, *others, **kwargs)
        result = function(*args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        return trace_change(limits.check_value(result), value)

    return limited


def _joined(environment: Environment, value: Any, limits: Limits, d: Any = "", attribute: Any = None) -> str:
    """Return the items of a value, or an attribute of each, as one text."""
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return join(text_of(d), items, limits)


# Checks before a filter makes what could be too large; each takes its filter's arguments, and has its name in errors


def _fill(limits: Limits, value: Any, *others: Any, **named: Any) -> None:
    check_widths((*others, *named.values()))


def _indent(limits: Limits, text: Any, width: Any = 4, *others: Any, **named: Any) -> None:
    check_widths((width,))
    if isinstance(text, str):
        size = len(width) if isinstance(width, str) else int(width)
        limits.check_length(len(text) + (text.count("\n") + 1) * size)


def _replace(limits: Limits, text: Any, old: Any, new: Any, count: Any = None) -> None:
    check_replace(limits, text, old, new)


def _round(limits: Limits, number: Any, precision: Any = 0, method: Any = None) -> None:
    if isinstance(precision, int) and abs(precision) > 300:
        raise TemplateError("rounds to more than 300 digits")


def _sum(limits: Limits, items: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TemplateError("sums up something else than numbers")


def _wordwrap(
    limits: Limits,
    text: Any,
    width: Any = 79,
    break_long_words: Any = True,
    wrapstring: Any = None,
    break_on_hyphens: Any = True,
) -> None:
    limits.check_length(len(text_of(text)) * (1 + len(text_of(wrapstring or " "))))


_CHECKS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("batch", "center", "slice"), _fill),
    "indent": _indent,
    "replace": _replace,
    "round": _round,
    "sum": _sum,
    "wordwrap": _wordwrap,
}
