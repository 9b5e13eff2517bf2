"""A site: one operator or function call of a query whose evaluation may raise for a row.

The site of a node that may raise for several reasons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.sql.row_errors.implicit_casts import Reason

_FIELD = re.compile(r"\{(\d+)\}")

UNNAMED = "EVALUATION_ERROR"
"""The condition of errors that Spark raises as a plain Java exception, to which it gives no condition of its own."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node whose evaluation may raise. The templates have a field ``{0}``, ``{1}``... for each operand's text.

    ``condition`` and ``message`` are SQL expressions for rows for which this node raises while its operands do not;
    they never raise. ``guard`` is true where the node may raise at all: it depends on types and literals only, so
    Spark's optimizer replaces it by a constant; empty if it is always true.

    ``fails`` is a condition that itself never raises and costs no Java exception: true exactly where the node raises,
    for operands of the types for which ``fails_for`` is true. Both are empty where Spark has none.
    """

    kind: str
    operands: tuple[exp.Expr, ...]
    condition: str
    message: str
    guard: str = ""
    fails: str = ""
    fails_for: str = ""


@dataclass(frozen=True, slots=True)
class Unclassified:
    """A node of which it is not known whether it raises; ``construct`` names it for a user."""

    construct: str


def both(first: Site | None, second: Site | None) -> Site | None:
    """Return the site of a node that raises for either of two reasons.

    >>> a, b = exp.column("a"), exp.column("b")
    >>> both(Site("x", (a,), "'A'", "''", "{0} = 1"), Site("y", (b,), "'B'", "''", "{0} = 2")).guard
    '({0} = 1) OR ({1} = 2)'
    """
    if first is None or second is None:
        return first or second
    shift = len(first.operands)

    def moved(template: str) -> str:
        return _FIELD.sub(lambda field: f"{{{int(field[1]) + shift}}}", template)

    condition = first.condition
    if condition != moved(second.condition):
        condition = f"CASE WHEN {first.guard or 'true'} THEN {condition} ELSE {moved(second.condition)} END"
    return Site(
        first.kind,
        first.operands + second.operands,
        condition,
        f"CASE WHEN {first.guard or 'true'} THEN {first.message} ELSE {moved(second.message)} END",
        f"({first.guard}) OR ({moved(second.guard)})" if first.guard and second.guard else "",
    )


def fill(template: str, operands: Sequence[str]) -> str:
    """Return a template with the operands' texts in it, in parentheses.

    >>> fill("typeof({0}) = 'int' AND {1} = 0", ["a", "b + 1"])
    "typeof((a)) = 'int' AND (b + 1) = 0"
    """
    return template.format(*(f"({operand})" for operand in operands))


def raises(expression: str) -> str:
    """Return a condition that is true exactly where the evaluation of an expression raises.

    ``try_add`` of a date catches what its operands raise. ``array_repeat`` takes values of all types, and is evaluated
    even where Spark knows that its result is not NULL. The CASE keeps Spark from computing the common operand of a
    BETWEEN or NULLIF before, and outside of, ``try_add``.
    """
    return (
        "try_add(DATE'1970-01-01', CASE WHEN spark_partition_id() >= 0"
        f" THEN size(array_repeat({expression}, 1)) END) IS NULL"
    )


def constant_raises(expression: str) -> str:
    """Return the same for an expression of literals: Spark's optimizer replaces it by true or false."""
    return f"try_add(DATE'1970-01-01', size(array_repeat({expression}, 1))) IS NULL"


def literal(text: str) -> str:
    """Return a template of the string literal ``text``.

    >>> literal("it's {x}")
    "'it\\\\'s {{x}}'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}") + "'"


def value_text(operand: int) -> str:
    """Return the template of an operand's value as a text for a message."""
    return f"coalesce(CAST({{{operand}}} AS STRING), 'NULL')"


def type_of(operand: int) -> str:
    """Return the template of an operand's type in capitals."""
    return f"upper(typeof({{{operand}}}))"


_NAME = re.compile(r"[A-Z0-9_.]+")


def site_for(kind: str, operands: Sequence[exp.Expr], reasons: Sequence[Reason]) -> Site | None:
    """Return the site of a call that raises for one of the ``reasons``: the first that holds, or else the last one.

    >>> site_for("f", [exp.column("a")], [Reason("", "{0} = 0", "ZERO"), Reason("", "true", "OTHER")]).condition
    "CASE WHEN {0} = 0 THEN 'ZERO' ELSE 'OTHER' END"
    >>> site_for("f", [exp.column("a")], [])
    """
    if not reasons:
        return None
    *others, last = reasons
    condition = _code(last.condition)
    if any(reason.condition != last.condition for reason in others):
        cases = " ".join(f"WHEN {reason.when} THEN {_code(reason.condition)}" for reason in others)
        condition = f"CASE {cases} ELSE {condition} END"
    guard = "" if any(not reason.guard for reason in reasons) else _either([reason.guard for reason in reasons])
    values = ", ', ', ".join(value_text(i) for i in range(len(operands)))
    message = f"concat('{kind}(', {values}, ') cannot be computed.')"
    return Site(kind, tuple(operands), condition, message, guard)


def _code(condition: str) -> str:
    """Return a condition's name as a literal; a template that computes it stays as it is."""
    return literal(condition) if _NAME.fullmatch(condition) else condition


def _either(guards: Sequence[str]) -> str:
    different = list(dict.fromkeys(guards))
    return different[0] if len(different) == 1 else " OR ".join(f"({guard})" for guard in different)
