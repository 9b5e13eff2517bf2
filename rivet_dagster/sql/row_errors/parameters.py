"""The parameters of Spark's functions to which an argument of another type is cast, and what such a cast may raise.

``parameters.txt`` has a line for each function: its name and the type of each parameter, ``-`` for one whose arguments
are never cast, or only to STRING or BINARY, which never raises. To a type with ``~`` strings are not cast, to one with
``!`` only strings are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlglot import exp

from rivet_dagster.sql.row_errors.strings import (
    CAST_INVALID_INPUT,
    INTEGERS,
    NUMERIC_TEXT,
    is_datetime,
    is_other_constant,
    is_string,
    one_of,
    text_of,
)

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
