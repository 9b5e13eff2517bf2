"""Implicit casts: where Spark casts a string operand to the type of another operand, which raises for other texts.

Spark casts a string that meets an integer to BIGINT, one that meets a fraction to DOUBLE, and otherwise to the type
that it meets. All of this is decided by types, so the guards here are constants for Spark's optimizer.

The parameters of Spark's functions to which an argument of another type is cast, and what such a cast may raise.

``parameters.txt`` has a line for each function: its name and the type of each parameter, ``-`` for one whose arguments
are never cast, or only to STRING or BINARY, which never raises. To a type with ``~`` strings are not cast, to one with
``!`` only strings are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import pairwise

from sqlglot import exp

_LARGEST = {"int": "2147483648D", "bigint": "9223372036854775807D"}
_OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
_DATETIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for which a node may raise: its ``guard``, ``when`` it holds for a row, and the ``condition``."""

    guard: str
    when: str
    condition: str


@cache
def parameters() -> dict[str, tuple[str, ...]]:
    """Return the types of the parameters of functions, by their names."""
    lines = (files("rivet_dagster.sql.row_errors") / "parameters.txt").read_text("utf-8").splitlines()
    return {name: tuple(types) for name, *types in (line.split() for line in lines)}


def casts_of(name: str, operands: Sequence[exp.Expr]) -> list[Reason]:
    """Return the casts of a call's arguments that may raise.

    >>> [reason.guard for reason in casts_of("date_add", [exp.column("day"), exp.Literal.number(1)])]
    ["typeof({0}) LIKE 'string%'"]
    """
    types = parameters().get(name, ())
    return [
        reason
        for i, (operand, to) in enumerate(zip(operands, types, strict=False))
        if to != "-"
        for reason in cast_of(operand, i, to)
    ]


def cast_of(operand: exp.Expr, i: int, to: str) -> list[Reason]:
    """Return why the implicit cast of an argument to the type ``to`` may raise."""
    if isinstance(operand.unnest(), exp.Null) or _is_valid(operand, to):
        return []
    strings, numbers, to = not to.endswith("~"), not to.endswith("!"), to.rstrip("~!")
    if to.startswith("decimal"):
        return _casts_to_decimal(i, to)
    text = f"CAST({{{i}}} AS STRING)"  # valid for arguments of all types, as the branches are for all types, too
    reasons = []
    if strings and not is_other_constant(operand):
        malformed = f"{is_string(i)} AND {{{i}}} IS NOT NULL AND try_cast({text} AS {to.upper()}) IS NULL"
        reasons.append(Reason(is_string(i), malformed, CAST_INVALID_INPUT))
    if numbers and to in _LARGEST and text_of(operand) is None:
        fitting = [*INTEGERS[: INTEGERS.index(to) + 1], "boolean", "void"]
        guard = f"NOT ({one_of(fitting, i)} OR {is_string(i)})"
        overflows = f"{guard} AND abs(try_cast({text} AS DOUBLE)) >= {_LARGEST[to]}"
        reasons.append(Reason(guard, overflows, "CAST_OVERFLOW"))
    return reasons


def decimal_text(i: int, digits: int) -> list[Reason]:
    """Return why the cast of a text to a decimal with so many digits before the point may raise."""
    text = f"CAST({{{i}}} AS STRING)"
    number = f"abs(try_cast({text} AS DOUBLE))"
    guard = f"{is_string(i)} AND {{{i}}} IS NOT NULL"
    return [
        Reason(is_string(i), f"{guard} AND NOT {text} RLIKE '{NUMERIC_TEXT}'", CAST_INVALID_INPUT),
        Reason(is_string(i), f"{guard} AND {number} >= 1e38D", "NUMERIC_OUT_OF_SUPPORTED_RANGE"),
        Reason(is_string(i), f"{guard} AND {number} >= 1e{digits}D", _OUT_OF_RANGE),
    ]


def _casts_to_decimal(i: int, to: str) -> list[Reason]:
    precision, scale = map(int, to.removeprefix("decimal(").removesuffix(")").split(","))
    digits = precision - scale
    guard = f"typeof({{{i}}}) IN ('bigint', 'float', 'double') OR typeof({{{i}}}) LIKE 'decimal%'"
    overflows = f"({guard}) AND abs(try_cast(CAST({{{i}}} AS STRING) AS DOUBLE)) >= 1e{digits}D"
    return [*decimal_text(i, digits), Reason(guard, overflows, _OUT_OF_RANGE)]


def _is_valid(operand: exp.Expr, to: str) -> bool:
    """Return whether an argument is a constant that is certainly cast without an error."""
    text = text_of(operand)
    if text is not None:
        return to in _DATETIMES and is_datetime(text)
    number = operand.unnest()
    number = number.this if isinstance(number, exp.Neg) else number
    return isinstance(number, exp.Literal) and (to not in _LARGEST or (number.name.isdigit() and len(number.name) < 10))


INTEGERS = ("tinyint", "smallint", "int", "bigint")
FRACTIONS = ("float", "double")
CAST_INVALID_INPUT = "CAST_INVALID_INPUT"

NUMERIC_TEXT = r"^[\\s]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[\\s]*$"
"""The pattern, as a literal of SQL, of a text that can be cast to a decimal."""

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d{1,300}\.?\d*|\.\d+)")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?")


def one_of(types: Sequence[str], operand: int) -> str:
    """Return the template of a condition that an operand has one of the types.

    >>> one_of(["int", "double"], 0)
    "typeof({0}) IN ('int', 'double')"
    """
    names = ", ".join(f"'{name}'" for name in types)
    return f"typeof({{{operand}}}) IN ({names})"


def is_string(operand: int) -> str:
    """Return the template of a condition that an operand is a string, of any collation."""
    return f"typeof({{{operand}}}) LIKE 'string%'"


def casts_a_string(operands: Sequence[exp.Expr]) -> str | None:
    """Return the guard of a node that needs one type for all operands; None if it never casts a string to another type.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> casts_a_string([parse_expression("a"), parse_expression("1")])
    "typeof({0}) LIKE '%string%'"
    >>> casts_a_string([parse_expression("'a'"), parse_expression("'b'")])
    """
    texts = [text for text in map(text_of, operands) if text is not None]
    constant = any(is_other_constant(operand) for operand in operands)
    unknown = [i for i, operand in enumerate(operands) if _may_be_a_string(operand)]
    if not unknown and not (texts and constant):
        return None
    if texts:
        return _unless_castable(texts, unknown) if not constant else "true"
    strings = " OR ".join(f"typeof({{{i}}}) LIKE '%string%'" for i in unknown)
    if constant:
        return strings if len(unknown) == 1 else f"({strings})"
    different = [f"typeof({{{i}}}) <> typeof({{{j}}})" for i, j in pairwise(unknown)]
    return f"({strings}) AND ({' OR '.join(different)})" if different else None


def fails_to_cast(operand: int, other: int) -> str:
    """Return the template of a condition that a string operand cannot be cast to the type of the ``other`` one.

    It never raises, and is valid whatever the types are.
    """
    number = f"({one_of(FRACTIONS, other)} OR typeof({{{other}}}) LIKE 'decimal%')"
    return (
        f"({is_string(operand)} AND {{{operand}}} IS NOT NULL AND CASE"
        f" WHEN {one_of(INTEGERS, other)} THEN {_uncastable(operand, 'BIGINT')}"
        f" WHEN {number} THEN {_uncastable(operand, 'DOUBLE')}"
        f" WHEN typeof({{{other}}}) = 'date' THEN {_uncastable(operand, 'DATE')}"
        f" WHEN typeof({{{other}}}) = 'timestamp_ntz' THEN {_uncastable(operand, 'TIMESTAMP_NTZ')}"
        f" WHEN typeof({{{other}}}) = 'timestamp' OR typeof({{{other}}}) LIKE 'interval%'"
        f" THEN {_uncastable(operand, 'TIMESTAMP')}"
        f" WHEN typeof({{{other}}}) = 'boolean' THEN {_uncastable(operand, 'BOOLEAN')}"
        " ELSE false END)"
    )


def text_of(operand: exp.Expr) -> str | None:
    """Return the text of a string literal; None for anything else."""
    operand = operand.unnest()
    is_text = isinstance(operand, exp.RawString) or (isinstance(operand, exp.Literal) and operand.is_string)
    return operand.name if is_text else None


def is_other_constant(operand: exp.Expr) -> bool:
    """Return whether an operand is certainly no string: a number, a boolean, a comparison, a cast to another type."""
    operand = operand.unnest()
    if isinstance(operand, exp.Neg):
        operand = operand.this
    if isinstance(operand, exp.Cast):
        return not operand.to.is_type(*exp.DataType.TEXT_TYPES) and not operand.to.args.get("nested")
    if isinstance(operand, exp.Literal):
        return not operand.is_string
    return isinstance(operand, exp.Boolean | exp.Predicate | exp.Not | exp.Interval)


def _may_be_a_string(operand: exp.Expr) -> bool:
    return text_of(operand) is None and not is_other_constant(operand) and not isinstance(operand.unnest(), exp.Null)


def _unless_castable(texts: Sequence[str], unknown: Sequence[int]) -> str:
    """Return a condition that an operand has another type than string, to which one of the literals cannot be cast."""
    harmless = set.intersection(*(_castable(text) for text in texts))
    types = sorted({"void", *harmless})
    each = [
        f"NOT ({is_string(i)} OR {one_of(types, i)}"
        + (f" OR typeof({{{i}}}) LIKE 'decimal%')" if "double" in harmless else ")")
        for i in unknown
    ]
    return each[0] if len(each) == 1 else f"({' OR '.join(each)})"


def _castable(text: str) -> set[str]:
    """Return the types to which a literal's text can certainly be cast; "double" stands for decimals, too."""
    if _INTEGER.fullmatch(text):
        return {*INTEGERS, *FRACTIONS}
    if _NUMBER.fullmatch(text):
        return set(FRACTIONS)
    if is_datetime(text):
        return {"date", "timestamp", "timestamp_ntz"}
    return {"boolean"} if text in ("true", "false") else set()


def is_datetime(text: str) -> bool:
    """Return whether a text is a date, or a date and a time, that Spark reads as a DATE and as a TIMESTAMP."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _uncastable(operand: int, target: str) -> str:
    # The cast to STRING makes the text valid for operands of other types, for which it is not evaluated.
    return f"try_cast(CAST({{{operand}}} AS STRING) AS {target}) IS NULL"
