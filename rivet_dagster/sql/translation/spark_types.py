"""Spark's types by their names: widening, decimals, and the patterns in which lists of constructs write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

VOID = "void"
INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
BOUNDS = {kind: 2 ** (8 * 2**position - 1) for position, kind in enumerate(INTEGERS)}
"""One more than the greatest value of each type of integers."""

CLASSES: dict[str, tuple[str, ...]] = {
    "I": INTEGERS,
    "N": (*INTEGERS, "float", "double"),
    "O": (*INTEGERS, "float", "double", "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"),
    "K": (*INTEGERS, "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"),
    "B": (*INTEGERS, "double", "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"),
    "E": (*INTEGERS, "double", "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"),
}
"""Variables of patterns and the types that they stand for: integers, numbers, ordered types, keys, elements."""


def decimal(kind: str | None) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type; None for another one.

    >>> decimal("decimal(10,2)"), decimal("int")
    ((10, 2), None)
    """
    if kind is None or not kind.startswith("decimal("):
        return None
    precision, scale = kind[8:-1].split(",")
    return int(precision), int(scale)


def element(kind: str) -> str | None:
    """Return the type of the elements of an array; None for another type.

    >>> element("array<int>")
    'int'
    """
    return kind[6:-1] if kind.startswith("array<") else None


def as_decimal(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of the decimal type that holds all values of an exact type.

    >>> as_decimal("int")
    (10, 0)
    """
    return (_DIGITS[kind], 0) if kind in _DIGITS else decimal(kind)


def wider(one: str, other: str) -> str | None:
    """Return the type to which Spark casts values of two types that are compared or combined; None where none is sure.

    >>> wider("int", "bigint"), wider("int", "decimal(4,2)"), wider("float", "int"), wider("int", "date")
    ('bigint', 'decimal(12,2)', None, None)
    """
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if one in INTEGERS and other in INTEGERS:
        return max(one, other, key=INTEGERS.index)
    if "double" in (one, other):
        return "double" if {one, other} <= {*INTEGERS, "double"} or decimal(one) or decimal(other) else None
    left, right = as_decimal(one), as_decimal(other)
    if left is not None and right is not None:
        scale = max(left[1], right[1])
        precision = max(left[0] - left[1], right[0] - right[1]) + scale
        return f"decimal({precision},{scale})" if precision <= 38 else None
    inner = element(one), element(other)
    if inner[0] is not None and inner[1] is not None:
        both = wider(inner[0], inner[1])
        return f"array<{both}>" if both is not None else None
    return None


def widest(types: Sequence[str]) -> str | None:
    """Return the type to which Spark casts values of several types.

    >>> widest(["int", "void", "double"])
    'double'
    """
    found: str | None = VOID
    for kind in types:
        found = wider(found, kind) if found is not None else None
    return found


def match(pattern: str, kind: str, bound: dict[str, str]) -> bool:
    """Return whether ``kind`` is of a pattern; add to ``bound`` what the variables of the pattern stand for.

    >>> bound = {}
    >>> match("array<E>", "array<int>", bound), bound, match("E", "string", bound)
    (True, {'E': 'int'}, False)
    """
    if pattern in CLASSES:
        plain = "decimal" if decimal(kind) else kind
        return plain in CLASSES[pattern] and bound.setdefault(pattern, kind) == kind
    if pattern in ("decimal", "decimal2"):
        return decimal(kind) is not None and bound.setdefault(pattern, kind) == kind
    for around in ("array<", "lambda<"):
        if pattern.startswith(around):
            return kind.startswith(around) and match(pattern[len(around) : -1], kind[len(around) : -1], bound)
    return pattern == kind


def fill(pattern: str, bound: Mapping[str, str]) -> str:
    """Return a pattern with its variables replaced.

    >>> fill("array<E>", {"E": "int"})
    'array<int>'
    """
    return re.sub(r"\b[A-Z]\b|\bdecimal2?\b(?!\()", lambda found: bound.get(found[0], found[0]), pattern)


def result_of(rule: str, types: Sequence[str], bound: Mapping[str, str], digits: int = 0) -> str | None:
    """Return the result type of a construct: a pattern, or the name of a rule of decimals after ``=``.

    ``digits`` are those to which a number is rounded. None where Spark would reduce the scale to fit into 38 digits.
    ``=average`` is for 12 digits, since Spark averages fewer as doubles, to 23, whose sums with five more digits fit.

    >>> result_of("=multiply", ["decimal(4,2)", "decimal(3,1)"], {})
    'decimal(8,3)'
    """
    if not rule.startswith("="):
        return fill(rule, bound)
    (p1, s1), (p2, s2) = [as_decimal(kind) or (0, 0) for kind in (types[0], types[-1])]
    whole = max(p1 - s1, p2 - s2)
    scale = {
        "=add": max(s1, s2),
        "=modulo": max(s1, s2),
        "=multiply": s1 + s2,
        "=divide": max(6, s1 + p2 + 1),
        "=sum": s1,
        "=widest": s1,
        "=average": s1 + 4,
        "=round": min(s1, digits),
        "=whole": 0,
    }[rule]
    precision = {
        "=add": whole + scale + 1,
        "=modulo": min(p1 - s1, p2 - s2) + scale,
        "=multiply": p1 + p2 + 1,
        "=divide": p1 - s1 + s2 + scale,
        "=sum": p1 + 10,
        "=widest": 38,
        "=average": p1 + 4 if 12 <= p1 <= 23 else 39,
        "=round": p1 - s1 + 1 + scale,
        "=whole": p1 - s1 + (1 if s1 else 0),
    }[rule]
    return f"decimal({precision},{scale})" if precision <= 38 else None
