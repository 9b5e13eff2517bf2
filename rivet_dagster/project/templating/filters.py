"""Jinja's filters and tests, but for those that are not pure, make HTML or look into objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import Environment, Undefined
from jinja2.nodes import EvalContext
from jinja2.runtime import Context

from rivet_dagster.project.templating.budget import Budget
from rivet_dagster.project.templating.methods import percent, size_of_replaced, within
from rivet_dagster.project.templating.values import Bound, text_of
from rivet_dagster.project.templating.words import TemplateError

FILTERS = (
    "abs batch capitalize center count d default dictsort filesizeformat first float format groupby indent int items "
    "join last length list lower map max min reject rejectattr replace reverse round select selectattr slice sort "
    "string sum title trim truncate unique upper wordcount wordwrap"
).split()

_NOT_TESTS = ("callable", "escaped", "sameas")
_FILL = frozenset(("batch", "center", "indent", "round", "slice", "truncate", "wordwrap"))
_OF_ANYTHING = frozenset(("d", "default", "defined", "string", "undefined"))
"""Those that can be used on a value which only a run knows."""


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
            return function(*args, **kwargs)
        _refuse(name, value, others, kwargs, left)
        if name == "format":
            return percent(text_of(value), kwargs or tuple(others), left)
        if name == "string":
            return text_of(value)
        result = function(*args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        left.weigh(result)
        return result

    return limited


def _refuse(name: str, value: Any, others: list[Any], kwargs: dict[str, Any], budget: Budget) -> None:
    """Raise TemplateError for a call whose result would be too large, or that writes an object."""
    if name in _FILL:
        within((*others, *kwargs.values()))
        if name == "indent" and isinstance(value, str):
            width = next(iter((*others, kwargs.get("width", 4))))
            budget.make(len(value) + (value.count("\n") + 1) * (len(width) if isinstance(width, str) else int(width)))
        if name == "round" and any(isinstance(n, int) and abs(n) > 300 for n in (*others, *kwargs.values())):
            raise TemplateError("rounds to more than 300 digits")
    elif name == "replace":
        budget.make(size_of_replaced(value, *others[:2], **{k: v for k, v in kwargs.items() if k != "count"}))
    elif name == "join":
        separator = others[0] if others else kwargs.get("d", "")
        items = list(value) if not isinstance(value, Undefined) else []
        if len(others) < 2 and "attribute" not in kwargs:
            budget.make(sum(len(text_of(item)) for item in items))
        budget.make(len(text_of(separator)) * len(items))
    elif name == "sum":
        start = others[1] if len(others) > 1 else kwargs.get("start", 0)
        if not isinstance(start, int | float):
            raise TemplateError("sums up something else than numbers")
    elif name in ("capitalize", "lower", "title", "trim", "truncate", "upper", "wordcount", "wordwrap", "center"):
        text_of(value)
