"""SQL conditions that tell whether an expression raises an error, without raising it themselves.

Spark's ``try_add`` of a date and a number gives NULL where evaluating one of its arguments raises an error, whatever
that argument is; the size of an array of one value is a number for a value of any type, and Spark does not know it
without evaluating the value. So it is always Spark itself, with the author's own text, that tells whether a row fails.
Common subexpressions must not be computed before the condition that guards them: sessions compute these queries
without `spark.sql.subexpressionElimination.enabled`.

The reason why the errors of a query cannot be separated from its rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from rivet_dagster.sql.trees import text as rendered


def raises(text: str, guard: str = "") -> str:
    """Return a condition that is true where evaluating ``text`` raises an error, else false.

    ``guard`` is a condition without which it cannot raise one.

    >>> raises("a / b")
    "try_add(DATE'1970-01-01', size(array_repeat(a / b, 1))) IS NULL"
    """
    condition = f"try_add(DATE'1970-01-01', size(array_repeat({text}, 1))) IS NULL"
    return f"({guard}) AND {condition}" if guard else condition


def value_or_null(text: str, condition: str) -> str:
    """Return the value of ``text``, or NULL where ``condition`` is true."""
    return f"CASE WHEN {condition} THEN NULL ELSE {text} END"


def true_or_false(text: str, condition: str, otherwise: str = "false") -> str:
    """Return the truth of the condition ``text``, or ``otherwise`` where evaluating it raises an error."""
    return f"(CASE WHEN {condition} THEN {otherwise} ELSE {text} END)"


def any_of(conditions: Iterable[str]) -> str:
    """Return a condition that is true where one of ``conditions`` is.

    >>> any_of(["a", "b AND c"]), any_of(["a"])
    ('(a) OR (b AND c)', 'a')
    """
    known = list(dict.fromkeys(conditions))
    return known[0] if len(known) == 1 else " OR ".join(f"({condition})" for condition in known)


def literal(value: str | int | None) -> str:
    """Return a constant of a query.

    >>> literal("it's"), literal(2), literal(None)
    ("'it\\\\'s'", '2', 'NULL')
    """
    if value is None:
        return "NULL"
    return rendered(exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value))


class RefusedError(Exception):
    """A construct with an expression in it that can fail, on a line of the query, whose errors cannot be told apart."""

    def __init__(self, construct: str, line: int) -> None:
        super().__init__(construct)
        self.construct = construct
        self.line = line
