"""What templates may call and look into, within limits: functions, filters and tests, and the methods of objects.

Jinja's own are there but for those that are not pure, make HTML or look into objects.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from string import Formatter
from typing import Any

from jinja2 import Environment
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.runtime import Context

from rivet_dagster.errors import nearest
from rivet_dagster.project.templating.limits import WIDEST, Limits, check_widths
from rivet_dagster.project.templating.rendering_state import Bound, Function, RenderingState, Returned, text_of
from rivet_dagster.project.templating.traced import trace_change
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


ATTRIBUTES: dict[str, frozenset[str]] = {
    "str": frozenset(
        "capitalize casefold center count endswith find format index isalnum isalpha isdecimal isdigit isidentifier "
        "islower isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace "
        "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper "
        "zfill".split()
    ),
    "list": frozenset("append clear copy count extend index insert pop remove reverse".split()),
    "tuple": frozenset(("count", "index")),
    "dict": frozenset("clear copy get items keys pop popitem setdefault update values".split()),
    "LoopContext": frozenset(
        "changed cycle depth depth0 first index index0 last length nextitem previtem revindex revindex0".split()
    ),
    "Cycler": frozenset(("current", "next", "reset")),
    "_GroupTuple": frozenset(("count", "grouper", "index", "list")),
    "Macro": frozenset(("name",)),
}
"""By the name of the type. Those of str are Python's; lists and mappings of one rendering are known in no other."""

_FORMAT = re.compile(r"%(?:%|(?:\(\w+\))?[-+ #0]*\d{0,3}(?:\.\d{0,2})?[sdifeEgGxXoc])")
_SPEC = re.compile(r"(?:[^{}%]?[<>=^])?[-+ ]?#?0?\d{0,3}[,_]?(?:\.\d{0,2})?[sdeEfFgGnxXobc%]?")


def call_method(owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], limits: Limits) -> Any:
    """Return the result of a method of a text, list or mapping. Raises TemplateError where it would be too large."""
    if name in ("center", "ljust", "rjust", "zfill"):
        check_widths(args[:1])
    elif name == "replace":
        check_replace(limits, owner, *args[:2])
    elif name == "extend":
        limits.count(sum(map(len, args)))
    elif name == "join":
        return join(owner, args[0], limits)
    elif name == "format":
        return format_text(owner, args, kwargs, limits)
    result = getattr(owner, name)(*args, **kwargs)
    if isinstance(owner, dict) and name in ("items", "keys", "values"):
        result = list(result)
    return trace_change(limits.check_value(result), owner)


def check_replace(limits: Limits, text: Any, old: Any = "", new: Any = "") -> None:
    """Raise TemplateError where a text in which ``old`` is replaced by ``new`` could be too long."""
    limits.check_length(len(text_of(text)) + text_of(text).count(text_of(old)) * len(text_of(new)))


def join(separator: str, items: Iterable[Any], limits: Limits) -> str:
    """Return the items as one text, as the method and the filter do."""
    texts = [text_of(item) for item in items]
    limits.check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def format_percent(text: str, values: Any, limits: Limits) -> str:
    """Return ``text % values`` with conversions of data alone, up to a width of three digits."""
    if "%" in _FORMAT.sub("", text):
        raise TemplateError("holds a format that is none of %s, %d, %f, %e, %g, %x, %o, %c and %%, or too wide a one")
    parts = values if isinstance(values, dict) else tuple(values) if isinstance(values, tuple) else (values,)
    longest = max([len(text_of(value)) for value in (parts.values() if isinstance(parts, dict) else parts)], default=0)
    limits.check_length(len(text) + text.count("%") * (longest + WIDEST))
    if isinstance(parts, dict):
        return text % {key: _shown(value) for key, value in parts.items()}
    return text % tuple(map(_shown, parts))


def format_text(text: str, args: tuple[Any, ...], kwargs: dict[str, Any], limits: Limits) -> str:
    """Return ``text.format(...)`` of data alone, without attributes and items, up to a width of three digits."""
    longest = max([len(text_of(value)) for value in (*args, *kwargs.values())], default=0)
    size = len(text)
    for _, field, spec, conversion in Formatter().parse(text):
        if field is None:
            continue
        if not (field == "" or field.isidentifier() or field.isdecimal()):
            raise TemplateError(f"formats '{{{field}}}'; a field has the name or the number of an argument alone")
        if conversion not in (None, "s") or not _SPEC.fullmatch(spec or ""):
            raise TemplateError(f"holds a format that is not supported or too wide: '{spec or conversion}'")
        size += longest + WIDEST
    limits.check_length(size)
    return str.format(text, *map(_shown, args), **{name: _shown(value) for name, value in kwargs.items()})


def _shown(value: Any) -> Any:
    """Return a number as it is, so that it can be formatted as one, and the text of anything else."""
    return value if isinstance(value, int | float) else text_of(value)
