"""Spark's functions: those that never raise, and the conditions of the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from sqlglot import exp

from rivet_dagster.sql.evaluation.arithmetic import arithmetic, negation
from rivet_dagster.sql.evaluation.site import Site, Unclassified, shown
from rivet_dagster.sql.evaluation.strings import CAST_INVALID_INPUT, is_string


def function_site(name: str, operands: Sequence[exp.Expr]) -> Site | Unclassified | None:
    """Return the site of a call of Spark's function ``name``; None if it never raises, Unclassified if not known."""
    if name in ("abs", "negative") and len(operands) == 1:
        return negation(operands[0], name)
    if name in ("pmod", "mod") and len(operands) == 2:
        return arithmetic(operands[0], operands[1], "pmod" if name == "pmod" else "%")
    if name in infallible():
        return None
    if name in ("to_date", "to_timestamp", "to_timestamp_ntz", "to_timestamp_ltz"):
        condition = f"'{CAST_INVALID_INPUT if len(operands) == 1 else 'CANNOT_PARSE_TIMESTAMP'}'"
        return _site(name, operands, condition, is_string(0))
    if name in ("[]", "element_at", "try_element_at"):
        return _element(name, operands)
    return Unclassified(name)


@cache
def infallible() -> frozenset[str]:
    """Return the names of functions that never raise, whatever arguments Spark's analyzer lets through."""
    return frozenset((files("rivet_dagster.sql.evaluation") / "infallible.txt").read_text("utf-8").split())


def _element(name: str, operands: Sequence[exp.Expr]) -> Site:
    outside = "INVALID_ARRAY_INDEX" if name == "[]" else "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
    zero = "WHEN CAST({1} AS STRING) = '0' THEN 'INVALID_INDEX_OF_ZERO' " if name != "[]" else ""
    condition = f"CASE WHEN typeof({{0}}) NOT LIKE 'array%' THEN '{CAST_INVALID_INPUT}' {zero}ELSE '{outside}' END"
    # A key that a map does not have gives NULL, but a string as the key of a map of other keys is cast.
    guard = (
        "typeof({0}) LIKE 'array%' OR"
        " typeof({0}) LIKE 'map%' AND typeof({0}) NOT LIKE 'map<string%' AND typeof({1}) LIKE 'string%'"
    )
    return _site(name, operands, condition, guard)


def _site(name: str, operands: Sequence[exp.Expr], condition: str, guard: str) -> Site:
    values = ", ', ', ".join(shown(i) for i in range(len(operands)))
    return Site(name, tuple(operands), condition, f"concat('{name}(', {values}, ') cannot be computed')", guard)
