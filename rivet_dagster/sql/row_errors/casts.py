"""The conditions of CAST, by source and target types."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.row_errors.arithmetic import OUT_OF_RANGE
from rivet_dagster.sql.row_errors.site import Site, constant_raises, literal, shown, type_of
from rivet_dagster.sql.row_errors.strings import (
    CAST_INVALID_INPUT,
    FRACTIONS,
    INTEGERS,
    NUMERIC_TEXT,
    is_datetime,
    is_string,
    one_of,
    text_of,
)

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

    >>> from rivet_dagster.sql.dialect import parse_expression
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
    return f"CASE WHEN {is_string(0)} THEN concat('\\'', CAST({{0}} AS STRING), '\\'') ELSE {shown(0)} END"


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
