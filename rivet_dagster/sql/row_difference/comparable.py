"""Expressions of values that Spark can group, order and compare, for each type that a column can have.

A type is written as in the JSON of Spark's schemas: a name such as ``long``, or an object for nested types.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

_PLAIN = re.compile(
    r"(boolean|byte|short|integer|long|float|double|decimal\(.*\)|(string|char|varchar)\b.*|binary|date"
    r"|timestamp|timestamp_ntz|time\(\d+\)|interval .+)\Z"
)
"""The names of types whose values Spark compares, groups and orders; ``interval`` alone is none of them."""

_VARIANT = "variant"


def is_comparable(kind: Any) -> bool:
    """Return whether two values of a type can be compared, if need be by what ``comparable`` makes of them.

    >>> is_comparable("long"), is_comparable("variant"), is_comparable("interval"), is_comparable("geometry(4326)")
    (True, True, False, False)
    """
    if isinstance(kind, str):
        return kind == _VARIANT or _PLAIN.match(kind) is not None
    match kind.get("type"):
        case "struct":
            return all(is_comparable(field["type"]) for field in kind["fields"])
        case "array":
            return is_comparable(kind["elementType"])
        case "map":
            return is_comparable(kind["keyType"]) and is_comparable(kind["valueType"])
    return False


def comparable(value: exp.Expr, kind: Any, depth: int = 0) -> exp.Expr:
    """Return ``value`` as one that Spark compares; two of them are equal if and only if the values are.

    A map is the list of its entries, ordered by key, wherever in the value it is, and a variant is its JSON text.
    ``depth`` is the number of lambda functions around it.

    >>> column = exp.column("c", quoted=True)
    >>> comparable(column, "double").sql("spark")
    '`c`'
    >>> comparable(column, {"type": "map", "keyType": "string", "valueType": "variant"}).sql("spark")
    'ARRAY_SORT(TRANSFORM(MAP_ENTRIES(`c`), e0 -> STRUCT(e0.key AS key, TO_JSON(e0.value) AS value)))'
    """
    if not _needs_change(kind):
        return value
    if kind == _VARIANT:
        return _call("TO_JSON", value)
    inner = f"e{depth}"
    match kind["type"]:
        case "array":
            return _transformed(value, inner, comparable(_name(inner), kind["elementType"], depth + 1))
        case "map":
            entry = [
                _named(comparable(_field(_name(inner), "key"), kind["keyType"], depth + 1), "key"),
                _named(comparable(_field(_name(inner), "value"), kind["valueType"], depth + 1), "value"),
            ]
            entries = _transformed(_call("MAP_ENTRIES", value), inner, exp.Struct(expressions=entry))
            return _call("ARRAY_SORT", entries)
    fields = [
        _named(comparable(_field(value, field["name"], quoted=True), field["type"], depth), f"f{number}")
        for number, field in enumerate(kind["fields"])
    ]
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.If(this=is_null, true=exp.Null(), false=exp.Struct(expressions=fields))


def _needs_change(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind == _VARIANT
    match kind["type"]:
        case "struct":
            return any(_needs_change(field["type"]) for field in kind["fields"])
        case "array":
            return _needs_change(kind["elementType"])
    return True


def _transformed(value: exp.Expr, inner: str, by: exp.Expr) -> exp.Expr:
    return _call("TRANSFORM", value, exp.Lambda(this=by, expressions=[exp.to_identifier(inner)]))


def _call(function: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _name(inner: str) -> exp.Expr:
    return exp.Column(this=exp.to_identifier(inner))


def _field(value: exp.Expr, name: str, quoted: bool = False) -> exp.Expr:
    return exp.Dot(this=value.copy(), expression=exp.to_identifier(name, quoted=quoted))


def _named(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name))
