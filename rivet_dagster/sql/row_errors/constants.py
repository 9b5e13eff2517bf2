"""Constants that can fail: Spark computes them when it plans a query, so they fail for all rows, or for none.

Only in the branches of CASE, IF and COALESCE does it leave one that fails to the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqlglot import exp

from rivet_dagster.sql.row_errors.code import Edit, edited, on_one_line
from rivet_dagster.sql.row_errors.expression_text import ExpressionText
from rivet_dagster.sql.row_errors.raising import any_of, value_or_null
from rivet_dagster.sql.row_errors.sites import Fallible, FoundSite, fallible

_LAZY = (exp.Case, exp.If, exp.Coalesce)
_VARIABLE = (exp.Identifier, exp.Placeholder, exp.Parameter, exp.AggFunc, exp.Window, exp.Query, exp.Star)
_PLAIN = (exp.Boolean, exp.DataType, exp.HexString, exp.Literal, exp.Null, exp.RawString, exp.Var)


def fallible_with_constants(expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> Fallible | None:
    """Return what ``fallible`` does; the text is one in which constants that fail are NULL, which Spark can plan."""
    found = fallible(expression, opaque)
    if found is None:
        return None
    failing: dict[tuple[int, int], Fallible] = {}
    for node in _constants(expression.tree, frozenset(map(id, opaque))):
        place, text = expression.place_of(node), expression.of(node)
        wrong = fallible(ExpressionText(text, expression.line_of(node))) if text is not None else None
        if place is not None and wrong is not None:
            failing[place] = wrong
    if not failing:
        return found
    guarded = {place: f"({value_or_null(wrong.text, wrong.failed)})" for place, wrong in failing.items()}
    text = on_one_line(edited(expression.text, [Edit(*place, value) for place, value in guarded.items()]))
    masked = ExpressionText(text, expression.line)
    others = fallible(masked, [node for node in masked.tree.walk() if node in opaque])
    failed = [wrong.failed for wrong in failing.values()]
    sites = [site for wrong in failing.values() for site in wrong.sites]
    if others is not None and next(iter(failing)) != expression.place_of(expression.tree):
        written = {value: failing[place].text for place, value in guarded.items()}
        constant = {site.text for site in sites}
        failed.append(others.failed)
        sites += [site for site in _as_written(others.sites, written) if site.text not in constant]
    return replace(found, text=text, failed=any_of(failed), sites=tuple(sites), complete=False, attempt=None)


def _constants(node: exp.Expr, opaque: Collection[int]) -> Iterator[exp.Expr]:
    """Yield the largest expressions of constants outside of branches."""
    if id(node) in opaque or isinstance(node, _PLAIN):
        return
    if node.find(*_VARIABLE) is None:
        yield node
        return
    for child in node.iter_expressions():
        yield from _constants(child, opaque)
        if isinstance(node, _LAZY):
            return


def _as_written(sites: Collection[FoundSite], written: dict[str, str]) -> Iterator[FoundSite]:
    for site in sites:
        text = site.text
        for value, original in written.items():
            text = text.replace(value, original)
        yield replace(site, text=text)
