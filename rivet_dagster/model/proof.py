"""Proofs: conditions of checks, as data, that a table's statistics may prove without reading rows.

A proof is sound: its number of violations is what every engine would count. A NULL violates no condition except
``NoNulls``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from typing import Any, Literal

from rivet_dagster.model.storage import ColumnStatistics, Statistics


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in a condition; ``type`` is number, string, boolean or date, ``text`` the value in Python's spelling.

    >>> Constant.of(2.5), Constant.of("a")
    (Constant(type='number', text='2.5'), Constant(type='string', text='a'))
    """

    type: str
    text: str

    @classmethod
    def of(cls, value: str | int | float | bool) -> Constant:
        """Return the constant of a scalar that YAML can contain."""
        kind = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
        return cls(kind, str(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsBetween:
    """The number of rows is between two bounds, both inclusive; None is no bound."""

    proof: Literal["rows_between"] = "rows_between"
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoNulls:
    """No row has a NULL in any of ``columns``."""

    proof: Literal["no_nulls"] = "no_nulls"
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Each value of ``column`` satisfies a comparison with a constant; ``operator`` is one of ``> >= < <= = <>``."""

    proof: Literal["compared"] = "compared"
    column: str
    operator: str
    constant: Constant


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOf:
    """Each value of ``column`` is one of the constants."""

    proof: Literal["one_of"] = "one_of"
    column: str
    constants: tuple[Constant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewestWithin:
    """The greatest value of ``column``, a time with a time zone, is at most ``max_age`` seconds old."""

    proof: Literal["newest_within"] = "newest_within"
    column: str
    max_age: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    """All of several conditions hold for each row."""

    proof: Literal["every"] = "every"
    of: tuple[Compared | OneOf | NoNulls, ...]


Proof = RowsBetween | NoNulls | Compared | OneOf | NewestWithin | Every


def proven_violations(proof: Proof | None, statistics: Statistics) -> int | None:
    """Return the number of violations, None where statistics are not enough to determine it.

    >>> known = Statistics(3, 0, values={"id": ColumnStatistics(0, 1, 7), "net": ColumnStatistics(2, 1, 7)})
    >>> [proven_violations(NoNulls(columns=names), known) for names in (("id",), ("net",), ("id", "x"))]
    [0, 2, None]
    >>> [proven_violations(Compared(column="id", operator=">", constant=Constant.of(n)), known) for n in (0, 1)]
    [0, None]
    """
    match proof:
        case RowsBetween(least=least, most=most):
            return max(0, (least or 0) - statistics.rows, statistics.rows - (statistics.rows if most is None else most))
        case NoNulls(columns=columns):
            return _nulls([_known(name, statistics).nulls for name in columns])
        case Every(of=conditions):
            return 0 if all(proven_violations(each, statistics) == 0 for each in conditions) else None
        case Compared(column=column, operator=operator, constant=constant):
            return 0 if _holds(column, statistics, lambda low, high: _compares(low, high, operator, constant)) else None
        case OneOf(column=column, constants=constants):
            return 0 if _holds(column, statistics, lambda low, high: _is_one_of(low, high, constants)) else None
        case NewestWithin(column=column, max_age=max_age):
            return 0 if _is_within(_known(column, statistics).max, max_age) else None
    return None


def _known(column: str, statistics: Statistics) -> ColumnStatistics:
    return statistics.values.get(column.lower(), ColumnStatistics())


def _nulls(counts: list[int | None]) -> int | None:
    """Return the number of rows with a NULL in any column; None if several have NULLs, perhaps in the same rows."""
    if len(counts) == 1:
        return counts[0]
    return 0 if all(count == 0 for count in counts) else None


def _holds(column: str, statistics: Statistics, holds: Callable[[Any, Any], bool]) -> bool:
    """Return whether a condition holds for the min and max of a column, or all of its values are NULL."""
    known = _known(column, statistics)
    if known.nulls == statistics.rows:
        return True
    type_ = next((kind for name, kind in statistics.columns if name.lower() == column.lower()), "")
    if None in (known.min, known.max) or type_.startswith("interval"):  # min and max of intervals look like numbers
        return False
    return holds(known.min, known.max)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq}


def _compares(least: Any, greatest: Any, operator: str, constant: Constant) -> bool:
    """Return whether the comparison holds for min and max; not for an order of strings: collations differ."""
    value = _as(constant, least)
    if value is None or (isinstance(value, str | bool) and operator != "="):
        return False
    if operator == "<>":
        return bool(value < least or greatest < value)
    compare = _OPERATORS[operator]
    return bool(compare(least, value) and compare(greatest, value))


def _is_one_of(least: Any, greatest: Any, constants: Sequence[Constant]) -> bool:
    """Return whether all values from min to max are allowed: a single one, or integers or booleans without a gap."""
    allowed = {value for constant in constants if (value := _as(constant, least)) is not None}
    if least == greatest:
        return least in allowed
    if not isinstance(least, int) or int(greatest) - int(least) >= len(allowed):
        return False
    return all(number in allowed for number in range(int(least), int(greatest) + 1))


def _as(constant: Constant, bound: Any) -> Decimal | date | str | bool | None:
    """Return the constant as a value that compares with a column's bound as in an engine, None where types differ."""
    if type(bound) in (int, Decimal) and constant.type == "number":
        number = Decimal(constant.text)
        return number if number.is_finite() else None
    if type(bound) is date and constant.type == "date":
        return date.fromisoformat(constant.text)
    if type(bound) is str and constant.type == "string":
        return constant.text
    if type(bound) is bool and constant.type == "boolean":
        return constant.text == "True"
    return None


def _is_within(newest: Any, max_age: float) -> bool:
    if not isinstance(newest, datetime) or newest.tzinfo is None:  # otherwise it depends on the session's time zone
        return False
    return newest >= datetime.now(UTC) - timedelta(seconds=max_age)
