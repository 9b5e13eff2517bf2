"""Conditions on rows that an engine may evaluate within a write, which an error of theirs would fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from sqlglot import exp

from rivet_dagster.model.check_plan import Observable
from rivet_dagster.sql import trees
from rivet_dagster.sql.parsing.dialect import SqlError, translate_parser_errors
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC
from rivet_dagster.sql.row_errors.function_calls import call_of
from rivet_dagster.sql.row_errors.site import Site, fill
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import ExpressionText

_ALWAYS = "(true)"
"""A part of a guard that holds for all types."""

_COMPARING = frozenset({"comparison", "boolean", "branches"})
"""The kinds of sites of operators that only need one type for all operands."""

_LONGEST = 10_000
"""The most characters of a condition: a longer one, as of thousands of values, is evaluated after the write."""


def observable_condition(condition: exp.Expr, values: Mapping[str, Any]) -> Observable | None:
    """Return a condition that is true for each row for which ``condition`` is, and never raises an error.

    Parameters are replaced by ``values``. None if it is not known of all operators and functions when they raise
    errors, if one may whatever the types of its operands are, if there are subqueries or other values each time, or if
    a value of ``values`` has characters whose meaning in a literal depends on settings.

    >>> from rivet_dagster.sql.trees import as_written
    >>> observable_condition(as_written("NOT (net >= 0)"), {})
    Observable(sql="(typeof((net)) LIKE '%string%') OR (NOT (net >= 0))", only_compares=True)
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
def _observable(text: str) -> Observable | None:
    with suppress(SqlError), translate_parser_errors():
        expression = ExpressionText(text, 1)
        sites = _sites(expression)
        guards = None if sites is None else [_guard(site, expression) for site in sites]
        if sites is not None and guards is not None and None not in guards:
            conditions = [*dict.fromkeys(guard for guard in guards if guard is not None), text]
            sql = " OR ".join(f"({each})" for each in conditions) if guards else text
            return Observable(sql, all(site.kind in _COMPARING for site in sites))
    return None


def _sites(expression: ExpressionText) -> list[Site] | None:
    """Return what may raise an error in an expression; None if that is not known, or if it varies otherwise."""
    sites = []
    for node in expression.tree.walk():
        if isinstance(node, exp.Query | exp.Window) or _is_parameter(node) or _varies(node):
            return None
        site = site_of(node)
        if isinstance(site, Site):
            sites.append(site)
        elif site is not None:
            return None
    return sites


def _guard(site: Site, expression: ExpressionText) -> str | None:
    """Return the condition on types without which a site raises no error; None if it may raise one for all types."""
    operands = [operand for tree in site.operands if (operand := expression.of(tree)) is not None]
    if not site.guard or _ALWAYS in site.guard or len(operands) < len(site.operands):
        return None
    return fill(site.guard, operands)


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
