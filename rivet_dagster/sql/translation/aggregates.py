"""Aggregates and window functions, with their FILTER, IGNORE NULLS and OVER."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from rivet_dagster.sql.translation.item_names import shown
from rivet_dagster.sql.translation.model import NotProven, TypedExpression
from rivet_dagster.sql.translation.proven import AGGREGATE, SCALAR, WINDOW, Support
from rivet_dagster.sql.translation.scope import SelectScope
from rivet_dagster.sql.translation.spark_types import INTEGERS
from rivet_dagster.sql.translation.templates import ERROR, ERROR_TYPE, cast, marked_calls

RANKING = frozenset("row_number rank dense_rank percent_rank cume_dist ntile lag lead".split())
_BY_CASE = (
    "Spark has no such aggregate either: write the condition in its argument, as in `sum(CASE WHEN a > 1 THEN b END)`."
)


class Values(Protocol):
    """What translates the arguments, conditions and keys of aggregates."""

    support: Support

    def translate(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        """Return an expression with its type."""
        ...

    def known(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        """Return an expression whose type is known."""
        ...

    def condition(self, node: exp.Expr, scope: SelectScope) -> exp.Expr:
        """Return a condition."""
        ...

    def apply(
        self, name: str, arguments: Sequence[TypedExpression], node: exp.Expr, section: str = SCALAR
    ) -> TypedExpression:
        """Return a listed construct over ``arguments``."""
        ...

    def ordered(self, node: exp.Expr, scope: SelectScope) -> exp.Ordered:
        """Return one item of an ORDER BY."""
        ...

    def key(self, typed: TypedExpression, clause: str, node: exp.Expr) -> None:
        """Refuse a type whose equal values are not one value."""
        ...


def window(values: Values, node: exp.Window, scope: SelectScope) -> TypedExpression:
    """Return an aggregate or window function OVER a window. Raise NotProven."""
    return aggregate(values, node.this, scope, _over(values, node, scope))


def aggregate(values: Values, node: exp.Expr, scope: SelectScope, over: exp.Window | None = None) -> TypedExpression:
    """Return an aggregate or window function with its FILTER, or its IGNORE NULLS and OVER. Raise NotProven."""
    condition, nulls = None, None
    call = node
    if isinstance(call, exp.Filter):
        if over is not None:  # Spark has none either
            raise NotProven("FILTER with OVER", node, _BY_CASE)
        condition = exp.Where(this=values.condition(call.expression.this, scope))
        call = call.this
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        nulls, call = type(call), call.this
    if not isinstance(call, exp.Anonymous):
        raise NotProven(shown(call), call)
    name = values.support.names.get(call.name.lower(), call.name.lower())
    section = AGGREGATE if values.support.knows(AGGREGATE, name) else WINDOW
    name, given = _given(name, call)
    arguments = [values.known(item, scope) for item in given]
    if nulls is exp.IgnoreNulls:
        name += "_ignore_nulls"
    if section == WINDOW and over is None:
        raise NotProven(f"{name}() without OVER", node)
    if over is None and name.startswith(("first", "last", "nth")):
        raise NotProven(f"{name}() without OVER", node, "Use max_by or min_by, whose result does not vary.")
    if over is not None and over.args.get("spec") is not None and f"no moving {name}" in values.support.clauses:
        raise NotProven(f"{name}() over a frame", node)
    if over is not None and f"no OVER {name}" in values.support.clauses:
        raise NotProven(f"{name}() OVER", node)
    typed = values.apply(name, arguments, node, section)
    tree = exp.Paren(this=typed.tree)
    calls = marked_calls(tree.this)
    if not calls:
        raise NotProven(f"{name}()", node)
    for marked in calls:
        whole: exp.Expr = marked.copy()
        if nulls is exp.IgnoreNulls or name.endswith("_ignore_nulls"):
            known = _WITH_NULLS[marked.name](**_arguments(marked)) if values.support.dialect == "duckdb" else whole
            whole = exp.IgnoreNulls(this=known)
        if condition is not None:
            whole = exp.Filter(this=whole, expression=condition.copy())
        if over is not None:
            window_of_call = over.copy()
            window_of_call.set("this", whole)
            whole = window_of_call
        marked.replace(whole)
    return TypedExpression(
        tree.this if isinstance(tree.this, exp.Anonymous | exp.Cast | exp.Paren) else tree, typed.type
    )


def _over(values: Values, node: exp.Window, scope: SelectScope) -> exp.Window:
    written = {key for key, value in node.args.items() if value}
    name = node.args.get("alias")
    if name is not None:
        if written - {"this", "alias", "over"} or name.name.lower() not in scope.windows:
            raise NotProven("a window that adds to another one", node)
        return _over(values, scope.windows[name.name.lower()], scope)
    if written - {"this", "partition_by", "order", "spec", "over"}:
        raise NotProven("OVER", node)
    parts = []
    for part in node.args.get("partition_by") or ():
        typed = values.known(part, scope)
        values.key(typed, "PARTITION BY", part)
        parts.append(_without_error_calls(values, typed.tree, part, scope))
    ordered = node.args.get("order")
    order = exp.Order(expressions=[_window_key(values, o, scope) for o in ordered.expressions]) if ordered else None
    return exp.Window(partition_by=parts, order=order, spec=_frame(node.args.get("spec")))


def _window_key(values: Values, node: exp.Expr, scope: SelectScope) -> exp.Ordered:
    made = values.ordered(node, scope)
    made.set("this", _without_error_calls(values, made.this, node, scope))
    return made


def _without_error_calls(values: Values, tree: exp.Expr, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    """Return an expression that fails by a cast: DuckDB takes no call of ``error`` in OVER.

    The cast is to the smallest number, so that the CASE that it stands in keeps its type; one of times would not.
    """
    calls = [call for call in tree.find_all(exp.Anonymous) if call.name == ERROR]
    if values.support.dialect != "duckdb" or not calls:
        return tree
    parts = list(node.find_all(exp.Column, exp.Cast, exp.TryCast, exp.Placeholder))
    other = {str(values.translate(part, scope).type) for part in parts} - {*INTEGERS, "double", "boolean", "string"}
    if other:
        construct = f"OVER with an expression of type {sorted(other)[0]} that may fail"
        raise NotProven(construct, node, "Compute it in a query before.")
    for failing in calls:
        number = exp.Cast(this=failing.expressions[0], to=exp.DataType.build("tinyint"))
        kind = failing.meta.get(ERROR_TYPE)
        failing.replace(cast(number, kind, "duckdb") if kind in ("string", "boolean") else number)
    return tree


def _frame(spec: exp.Expr | None) -> exp.Expr | None:
    if spec is None:
        return None
    kind = str(spec.args.get("kind")).upper()
    for side in ("start", "end"):
        bound = spec.args.get(side)
        fixed = bound is None or isinstance(bound, str)
        if not fixed and not (kind == "ROWS" and isinstance(bound, exp.Literal) and bound.name.isdigit()):
            raise NotProven("a frame of RANGE with an offset" if kind == "RANGE" else "a frame", spec)
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise NotProven("a frame", spec)
    return spec.copy()


_WITH_NULLS: dict[str, type[exp.Expr]] = {"first_value": exp.FirstValue, "last_value": exp.LastValue}
"""Functions in which the generator of DuckDB puts IGNORE NULLS where DuckDB reads it."""


def _arguments(call: exp.Anonymous) -> dict[str, exp.Expr]:
    return {"this": call.expressions[0].copy()}


def _given(name: str, call: exp.Anonymous) -> tuple[str, list[exp.Expr]]:
    items = call.expressions
    if len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values()):
        return f"{name}_rows", []
    if len(items) == 1 and isinstance(items[0], exp.Distinct):
        return f"{name} distinct", items[0].expressions
    if name in ("first", "last") and len(items) == 2 and isinstance(items[1], exp.Boolean):
        return f"{name}_ignore_nulls" if items[1].this else name, items[:1]
    return name, items
