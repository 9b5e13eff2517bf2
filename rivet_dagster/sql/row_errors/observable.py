"""Conditions on rows that an engine may evaluate within a write, which an error of theirs would fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from sqlglot import exp

from rivet_dagster.sql import trees
from rivet_dagster.sql.parsing.dialect import SqlError, translate_parser_errors
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC
from rivet_dagster.sql.row_errors.function_calls import call_of
from rivet_dagster.sql.row_errors.site import Site, fill
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import ExpressionText

_ALWAYS = "(true)"
"""A part of a guard that holds for all types."""

_LONGEST = 10_000
"""The most characters of a condition: a longer one, as of thousands of values, is evaluated after the write."""


def observable_condition(condition: exp.Expr, values: Mapping[str, Any]) -> str | None:
    """Return a condition that is true for each row for which ``condition`` is, and never raises an error.

    Where the types of columns are such that evaluating ``condition`` may raise an error for a row, it is true for all
    rows. Parameters are replaced by ``values``. None if it is not known of all of its operators and functions when they
    raise errors, if one always may, if it has subqueries or other values each time, or if a value of ``values`` has
    characters whose meaning in a literal depends on settings.

    >>> from rivet_dagster.sql.trees import as_written
    >>> observable_condition(as_written("NOT (net >= 0)"), {})
    "(typeof((net)) LIKE '%string%') OR (NOT (net >= 0))"
    >>> observable_condition(as_written("NOT (net / tax < 2)"), {})
    """
    literals = {name: literal for name, value in values.items() if (literal := _literal(value)) is not None}
    if len(literals) < len(values):
        return None
    filled = condition.copy()
    for parameter in [node for node in filled.walk() if _is_parameter(node)]:
        parameter.replace(literals[parameter.name])
    text = trees.text(filled)
    return _observable(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=10_000)
def _observable(text: str) -> str | None:
    with suppress(SqlError), translate_parser_errors():
        guards = _guards(ExpressionText(text, 1))
        if guards is not None:
            return " OR ".join(f"({each})" for each in (*guards, text)) if guards else text
    return None


def _guards(expression: ExpressionText) -> tuple[str, ...] | None:
    """Return conditions on types alone, without which no part of the expression raises an error; None if one may."""
    guards = []
    for node in expression.tree.walk():
        if isinstance(node, exp.Query | exp.Window) or _is_parameter(node) or _varies(node):
            return None
        site = site_of(node)
        if site is None:
            continue
        if not isinstance(site, Site) or not site.guard or _ALWAYS in site.guard:
            return None
        operands = [operand for tree in site.operands if (operand := expression.of(tree)) is not None]
        if len(operands) < len(site.operands):
            return None
        guards.append(fill(site.guard, operands))
    return tuple(dict.fromkeys(guards))


def _is_parameter(node: exp.Expr) -> bool:
    return isinstance(node, exp.Placeholder | exp.Parameter)


def _varies(node: exp.Expr) -> bool:
    call = call_of(node)
    return call is not None and call[0] in NON_DETERMINISTIC


def _literal(value: Any) -> exp.Expr | None:
    """Return the literal that means what a parameter with ``value`` does, None where there is none."""
    match value:
        case bool():
            return exp.Boolean(this=value)
        case int() if -(2**63) <= value < 2**63:
            return exp.Literal.number(value)
        case str() if not {"\\", "'"} & set(value):
            return exp.Literal.string(value)
    return None
