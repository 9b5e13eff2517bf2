"""The conditions of the arithmetic operators, by the types of operands and result."""

from __future__ import annotations

from sqlglot import exp

from rivet_dagster.sql.row_errors.site import UNNAMED, Site, shown, type_of
from rivet_dagster.sql.row_errors.strings import (
    CAST_INVALID_INPUT,
    FRACTIONS,
    INTEGERS,
    fails_to_cast,
    is_other_constant,
    is_string,
    one_of,
    text_of,
)

OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "div", exp.Mod: "%",
}  # fmt: skip

_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def arithmetic(left: exp.Expr, right: exp.Expr, symbol: str) -> Site | None:
    """Return the site of a binary operator, or of the function ``pmod`` (``symbol``); None if it cannot raise."""
    operands = (left, right)
    if symbol in ("+", "-", "*"):
        condition, guard = _overflow(symbol), _may_overflow(symbol, operands)
    else:
        condition, guard = _division(symbol), _may_fail_to_divide(symbol, operands)
    casts = " ".join(
        f"WHEN {fails_to_cast(i, j)} THEN '{CAST_INVALID_INPUT}'"
        for i, j in ((0, 1), (1, 0))
        if not is_other_constant(operands[i])
    )
    cases = f"CASE {casts} {condition} END".replace("CASE  ", "CASE ")
    strings = [_string_guard(operand, i) for i, operand in enumerate(operands)]
    parts = [part for part in (*strings, guard) if part]
    message = (
        f"concat({shown(0)}, ' {symbol} ', {shown(1)}, ' (', {type_of(0)}, ' {symbol} ', {type_of(1)},"
        " ') cannot be computed.')"
    )
    if not parts:
        return None
    guard = " OR ".join(f"({part})" for part in parts)
    if symbol not in _TRIED:
        return Site(symbol, operands, cases, message, guard)
    # NULL beside operands that are not: that is what these functions make of an error.
    fails = f"{{0}} IS NOT NULL AND {{1}} IS NOT NULL AND {_TRIED[symbol]}({{0}}, {{1}}) IS NULL"
    numbers = [f"({one_of((*INTEGERS, *FRACTIONS), i)} OR typeof({{{i}}}) LIKE 'decimal%')" for i in (0, 1)]
    return Site(symbol, operands, cases, message, guard, fails, " AND ".join(numbers))


def negation(operand: exp.Expr, kind: str) -> Site:
    """Return the site of a unary minus, or of ``abs`` or ``negative`` (``kind``)."""
    condition = (
        f"CASE WHEN {is_string(0)} THEN '{CAST_INVALID_INPUT}'"
        " WHEN typeof({0}) LIKE 'decimal%' THEN 'NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION'"
        " ELSE 'ARITHMETIC_OVERFLOW' END"
    )
    message = f"concat('The {kind} of ', {shown(0)}, ' of the type ', {type_of(0)}, ' cannot be computed.')"
    # Spark rounds a negated decimal to 34 digits, so that one of more digits may be out of range.
    small = "typeof({0}) LIKE 'decimal%' AND NOT typeof({0}) RLIKE '^decimal.3[5-8],'"
    guard = f"NOT ({one_of((*FRACTIONS, 'void'), 0)} OR {small})"
    return Site(kind, (operand,), condition, message, guard)


def symbol_of(node: exp.Expr) -> str | None:
    """Return the symbol of a binary operator node."""
    return _SYMBOLS.get(type(node))


def _string_guard(operand: exp.Expr, i: int) -> str:
    if is_other_constant(operand):
        return ""
    return "true" if text_of(operand) is not None else is_string(i)


def _overflow(symbol: str) -> str:
    result = f"typeof({{0}} {symbol} {{1}})"
    interval = f"'{UNNAMED}'" if symbol == "*" else "'INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION'"
    return (
        f"WHEN {result} LIKE 'decimal%' THEN '{OUT_OF_RANGE}'"
        f" WHEN {result} IN ('tinyint', 'smallint') THEN 'BINARY_ARITHMETIC_OVERFLOW'"
        f" WHEN {result} LIKE 'interval %' THEN {interval}"
        f" WHEN {result} LIKE 'timestamp%' THEN '{UNNAMED}'"
        " ELSE 'ARITHMETIC_OVERFLOW'"
    )


def _may_overflow(symbol: str, operands: tuple[exp.Expr, exp.Expr]) -> str:
    """Return a guard by the result: decimals of less than 38 digits have room for it, and days are added unchecked."""
    result = f"typeof({{0}} {symbol} {{1}})"
    intervals = " OR ".join(
        f"typeof({{{i}}}) LIKE 'interval%'" for i, operand in enumerate(operands) if not _is_number(operand)
    )
    guard = (
        f"NOT ({result} IN ('float', 'double', 'void', 'date')"
        f" OR {result} LIKE 'decimal%' AND {result} NOT LIKE 'decimal(38,%')"
    )
    return f"{guard} OR {intervals}" if intervals else guard


def _division(symbol: str) -> str:
    condition = "REMAINDER_BY_ZERO" if symbol in ("%", "pmod") else "DIVIDE_BY_ZERO"
    # try_cast covers all numbers and strings, and gives NULL for intervals, which cannot be divisors.
    zero = "try_cast(CAST({1} AS STRING) AS DOUBLE) = 0"
    result = "typeof(pmod({0}, {1}))" if symbol == "pmod" else f"typeof({{0}} {symbol} {{1}})"
    return (
        f"WHEN {zero} THEN CASE WHEN typeof({{0}}) LIKE 'interval%' AND {result} LIKE 'interval%'"
        f" THEN 'INTERVAL_DIVIDED_BY_ZERO' ELSE '{condition}' END"
        f" WHEN typeof({{0}}) LIKE 'decimal%' OR typeof({{1}}) LIKE 'decimal%' THEN '{OUT_OF_RANGE}'"
        f" WHEN typeof({{1}}) LIKE 'interval%' THEN '{condition}'"
        f" WHEN typeof({{0}}) LIKE 'interval %' THEN '{UNNAMED}'"
        " ELSE 'ARITHMETIC_OVERFLOW'"
    )


def _may_fail_to_divide(symbol: str, operands: tuple[exp.Expr, exp.Expr]) -> str:
    divisor = operands[1].unnest()
    if not (isinstance(divisor, exp.Literal) and not divisor.is_string and divisor.name.strip("0.") != ""):
        return "true"
    # A constant other than zero is left, by which only intervals and decimals of 38 digits can go out of range.
    safe = (*INTEGERS, *FRACTIONS, "void")
    if symbol in ("%", "pmod"):
        return f"NOT ({one_of(safe, 0)} OR typeof({{0}}) LIKE 'decimal%')"
    result = f"typeof({{0}} {symbol} {{1}})"
    room = f"{result} LIKE 'decimal%' AND {result} NOT LIKE 'decimal(38,%'"
    return f"NOT ({one_of(safe, 0)} OR {room})"


def _is_number(operand: exp.Expr) -> bool:
    operand = operand.unnest()
    return isinstance(operand, exp.Literal) and not operand.is_string
