"""The operators of one SELECT that have errors, and the relations that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from rivet_dagster.sql.row_errors.aggregate_calls import aggregates, windows
from rivet_dagster.sql.row_errors.aggregation_errors import aggregation_operators
from rivet_dagster.sql.row_errors.clauses import Relation
from rivet_dagster.sql.row_errors.join_errors import join_operators
from rivet_dagster.sql.row_errors.projection_errors import conditions, projection_operators, window_operators
from rivet_dagster.sql.row_errors.refusal import RefusedError
from rivet_dagster.sql.row_errors.select_rewrite import Operator, SelectRewrite


def relations(rewrite: SelectRewrite) -> Iterator[tuple[Relation, str | None]]:
    """Yield the relations of FROM, each with the reason why its rows must not have errors, None where they may."""
    relations = rewrite.select.relations
    for index, relation in enumerate(relations):
        after = [other.joined for other in relations[index + 1 :]]
        optional = any(word in relation.joined for word in ("LEFT", "FULL")) and "SEMI" not in relation.joined
        optional |= any("RIGHT" in joined or "FULL" in joined for joined in after)
        anti = "ANTI" in relation.joined
        yield relation, "an anti join" if anti else "the optional side of an outer join" if optional else None


def operators(rewrite: SelectRewrite) -> Iterator[Operator]:
    """Yield the operators of the SELECT that have errors, those of its joins first, and edit its text."""
    yield from join_operators(rewrite)
    if rewrite.select.clause("pipe") is not None:
        _refuse_any(rewrite, "pipe syntax")
    given = [rewrite.given(item) for item in rewrite.select.items]
    kept = conditions(rewrite)
    known = [one for one in given if one is not None]
    grouped = rewrite.select.clause("group") is not None or any(one.aggregates for one in known)
    windowed = any(one.windows for one in known)
    _refuse_order(rewrite)
    if grouped:
        yield from aggregation_operators(rewrite, known, kept, windowed)
    elif windowed:
        yield from window_operators(rewrite, known, kept)
    else:
        yield from projection_operators(rewrite, known, kept)


def _refuse_any(rewrite: SelectRewrite, construct: str) -> None:
    """Refuse the SELECT if any of its expressions can fail."""
    for item in rewrite.select.items:
        if rewrite.is_certain(rewrite.expression(item.part)):
            raise RefusedError(construct, rewrite.line)


def _refuse_order(rewrite: SelectRewrite) -> None:
    part = rewrite.select.clause("order")
    for key in rewrite.code.by_commas(part) if part is not None else ():
        expression = rewrite.expression(rewrite.without_direction(key))
        if rewrite.is_certain(expression, [*aggregates(expression.tree), *windows(expression.tree)]):
            raise RefusedError("an ORDER BY of an expression", expression.line)
