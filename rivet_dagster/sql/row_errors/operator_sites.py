"""The conditions of CAST, by source and target types.

The conditions of the arithmetic operators, by the types of operands and result.
"""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.row_errors.implicit_casts import (
    CAST_INVALID_INPUT,
    FRACTIONS,
    INTEGERS,
    NUMERIC_TEXT,
    fails_to_cast,
    is_datetime,
    is_other_constant,
    is_string,
    one_of,
    text_of,
)
from rivet_dagster.sql.row_errors.site import UNNAMED, Site, constant_raises, literal, type_of, value_text

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
        f"concat({value_text(0)}, ' {symbol} ', {value_text(1)}, ' (', {type_of(0)}, ' {symbol} ', {type_of(1)},"
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
    message = f"concat('The {kind} of ', {value_text(0)}, ' of the type ', {type_of(0)}, ' cannot be computed.')"
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


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DATETIMES = ("date", "timestamp", "timestamp_ntz")

_NAMES = {
    exp.DataType.Type.TINYINT: "tinyint", exp.DataType.Type.SMALLINT: "smallint", exp.DataType.Type.INT: "int",
    exp.DataType.Type.BIGINT: "bigint", exp.DataType.Type.FLOAT: "float", exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.DATE: "date", exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp", exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp_ntz", exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.BINARY: "binary",
}  # fmt: skip


def cast(operand: exp.Expr, to: exp.DataType) -> Site | None:
    """Return the site of a cast; None if it never raises for a value of any type that Spark allows.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> node = parse_expression("CAST(a AS DATE)")
    >>> site = cast(node.this, node.to)
    >>> site.guard, site.operands[0].sql()
    ("NOT typeof({0}) IN ('date', 'timestamp', 'timestamp_ntz', 'void')", 'a')
    """
    if to.is_type(*exp.DataType.TEXT_TYPES) or _is_valid_literal(operand, to) or isinstance(operand, exp.Null):
        return None
    name, target = _NAMES.get(to.this), to.sql(dialect=SPARK)
    guard = _guard(to, target)
    if guard is None:
        return None
    if isinstance(operand.unnest(), exp.Literal):
        guard = constant_raises(f"CAST({{0}} AS {target})")
    message = (
        f"concat('The value ', {_quoted()}, ' of the type ', {type_of(0)}, {literal(f' cannot be cast to {target}.')})"
    )
    decimal = to.this == exp.DataType.Type.DECIMAL
    if not (decimal or name in (*INTEGERS, *FRACTIONS, *_DATETIMES, "boolean")):
        return Site("cast", (operand,), _condition(to), message, guard)
    fails = f"{{0}} IS NOT NULL AND try_cast({{0}} AS {target}) IS NULL"
    # NaN as a DECIMAL is NULL without an error, and so is JSON's null in a VARIANT.
    numbers = INTEGERS if decimal else (*INTEGERS, *FRACTIONS)
    fails_for = f"{is_string(0)} OR {one_of(numbers, 0)} OR typeof({{0}}) LIKE 'decimal%'"
    return Site("cast", (operand,), _condition(to), message, guard, fails, fails_for)


def type_named(name: str) -> exp.DataType | None:
    """Return the type to which the function ``name`` casts its argument; None for the name of another function."""
    if name not in ("tinyint", "smallint", "bigint", "decimal", "binary"):
        return None
    return exp.DataType.build(name, dialect=SPARK)


def _quoted() -> str:
    return f"CASE WHEN {is_string(0)} THEN concat('\\'', CAST({{0}} AS STRING), '\\'') ELSE {value_text(0)} END"


def _guard(to: exp.DataType, target: str) -> str | None:
    """Return whether the type of the operand is one whose values may be refused; None if there is none."""
    name = _NAMES.get(to.this)
    if name == "binary":
        return "typeof({0}) = 'variant'"
    if to.is_type(exp.DataType.Type.INTERVAL, exp.DataType.Type.NULL):
        return None  # a text that is no calendar interval gives NULL
    if name in INTEGERS:
        narrower = [other for other in INTEGERS if _BITS[other] <= _BITS[name]]
        seconds = ["timestamp"] if name == "bigint" else []
        return f"NOT {one_of([*narrower, *seconds, 'boolean', 'void'], 0)}"
    if name in FRACTIONS:
        others = one_of([*INTEGERS, *FRACTIONS, "boolean", "timestamp", "void"], 0)
        return f"NOT ({others} OR typeof({{0}}) LIKE 'decimal%')"
    if to.this == exp.DataType.Type.DECIMAL:
        return _decimal_guard(*_precision(to))
    if name == "date":
        return f"NOT {one_of([*_DATETIMES, 'void'], 0)}"
    if name in ("timestamp", "timestamp_ntz"):
        # to_timestamp, which sqlglot reads as a cast, takes the text of a boolean.
        others = one_of([*INTEGERS, *_DATETIMES, "void"], 0)
        return f"NOT ({others} OR typeof({{0}}) LIKE 'decimal%')"
    if name == "boolean":
        numbers = one_of([*INTEGERS, *FRACTIONS, "timestamp", "boolean", "void"], 0)
        return f"NOT ({numbers} OR typeof({{0}}) LIKE 'decimal%')"
    return f"typeof({{0}}) <> {literal(target.lower())}"


def _precision(to: exp.DataType) -> tuple[int, int]:
    sizes = [int(parameter.name) for parameter in to.expressions]
    return (sizes[0] if sizes else 10), (sizes[1] if len(sizes) > 1 else 0)


def _decimal_guard(precision: int, scale: int) -> str:
    """Return whether the operand may have more digits before the point than the target, also after rounding."""
    room = precision - scale
    integers = [name for name in INTEGERS if _DIGITS[name] <= room]
    safe = one_of([*integers, *(["boolean"] if room else []), "void"], 0)
    digits, decimals = (f"try_cast(regexp_extract(typeof({{0}}), '([0-9]+),([0-9]+)', {i}) AS INT)" for i in (1, 2))
    fits = f"typeof({{0}}) LIKE 'decimal%' AND {digits} - {decimals} + IF({decimals} > {scale}, 1, 0) <= {room}"
    return f"NOT ({safe} OR {fits})"


def _condition(to: exp.DataType) -> str:
    if to.this == exp.DataType.Type.DECIMAL:
        text = "CAST({0} AS STRING)"
        string = (
            f"CASE WHEN NOT {text} RLIKE '{NUMERIC_TEXT}' THEN '{CAST_INVALID_INPUT}'"
            f" WHEN abs(try_cast({text} AS DOUBLE)) >= 1e38D THEN 'NUMERIC_OUT_OF_SUPPORTED_RANGE'"
            f" ELSE '{OUT_OF_RANGE}' END"
        )
        other = f"'{OUT_OF_RANGE}'"
    elif isinstance(to.this, exp.Interval):
        years = any(unit in to.sql() for unit in ("YEAR", "MONTH"))
        string = f"'INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING{'' if years else '_WITH_NOTICE'}'"
        other = "'CAST_OVERFLOW'"
    elif to.this in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ):
        string = f"'{CAST_INVALID_INPUT}'"
        nan = "typeof({0}) IN ('boolean', 'binary') OR CAST({0} AS STRING) IN ('NaN', 'Infinity', '-Infinity')"
        other = f"CASE WHEN {nan} THEN {string} ELSE 'CAST_OVERFLOW' END"
    elif to.args.get("nested"):
        string = f"'{CAST_INVALID_INPUT}'"
        other = f"CASE WHEN typeof({{0}}) LIKE '%string%' THEN {string} ELSE 'CAST_OVERFLOW' END"
    else:
        string, other = f"'{CAST_INVALID_INPUT}'", "'CAST_OVERFLOW'"
    return (
        f"CASE WHEN {is_string(0)} THEN {string} WHEN typeof({{0}}) = 'variant' THEN 'INVALID_VARIANT_CAST'"
        f" ELSE {other} END"
    )


def _is_valid_literal(operand: exp.Expr, to: exp.DataType) -> bool:
    """Return whether a cast of a literal certainly succeeds, as in ``DATE '2026-01-31'`` or ``1.5BD``."""
    name, text = _NAMES.get(to.this), text_of(operand)
    if text is not None and name in _DATETIMES:
        return is_datetime(text)
    negative = isinstance(operand, exp.Neg)
    number = operand.this if negative else operand
    if not isinstance(number, exp.Literal) or (number.is_string and to.this != exp.DataType.Type.DECIMAL):
        return False
    if name in FRACTIONS:
        return True
    try:
        value = Decimal(number.name)
    except ArithmeticError:
        return False
    if name in INTEGERS:
        return bool(abs(value) < 2 ** (_BITS[name] - 1))
    if to.this == exp.DataType.Type.DECIMAL:
        precision, scale = _precision(to)
        return abs(value) < Decimal(10) ** (precision - scale) - 1
    return False
