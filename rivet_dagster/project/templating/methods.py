"""The methods and attributes of Jinja's and Python's objects that templates can use, within limits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Formatter
from typing import Any

from rivet_dagster.project.templating.limits import WIDEST, Limits, check_widths
from rivet_dagster.project.templating.traced import trace_change
from rivet_dagster.project.templating.values import text_of
from rivet_dagster.project.templating.words import TemplateError

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
