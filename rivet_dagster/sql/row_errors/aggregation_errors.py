"""The errors of a SELECT with aggregates: of the rows of its groups, and of what is computed from the aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from rivet_dagster.sql.row_errors.aggregates import Aggregate, aggregates
from rivet_dagster.sql.row_errors.error_query import error_query, json_of
from rivet_dagster.sql.row_errors.fallible import Fallible, FoundSite
from rivet_dagster.sql.row_errors.filter_and_projection_errors import (
    Overflow,
    only_where,
    operator_of_rows,
    or_overflowing,
    overflow_of,
)
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, literal, raises, true_or_false, value_or_null
from rivet_dagster.sql.row_errors.select_clauses import conjuncts
from rivet_dagster.sql.row_errors.select_rewrite import Given, Operator, SelectRewrite, WhereConditions, refuse_inside
from rivet_dagster.sql.row_errors.site import fill
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import Edit, ExpressionText, apply_edits, on_one_line


@dataclass(frozen=True)
class _Having:
    """The conditions of a HAVING: those that cannot fail, the others, and arguments of their aggregates that can."""

    clean: tuple[str, ...]
    failing: tuple[Fallible, ...]
    arguments: tuple[Fallible, ...]
    overflows: tuple[Overflow, ...]


@dataclass(frozen=True)
class _Guarded:
    """An expression over aggregates that raise no errors themselves.

    Of its aggregates, ``arguments`` are those that can fail, and ``overflows`` the sums and averages that may overflow.
    """

    expression: ExpressionText
    arguments: tuple[Fallible, ...]
    overflows: tuple[Overflow, ...]

    @property
    def text(self) -> str:
        return on_one_line(self.expression.text)


def _cast_arguments(expression: ExpressionText, value: exp.Expr) -> Iterator[tuple[tuple[int, int], str, Fallible]]:
    """Yield the argument of an aggregate that Spark casts to the type that the function takes, and how that fails."""
    call = site_of(value)
    if not isinstance(call, Aggregate) or call.rows is None or len(call.operands) != 1:
        return
    operand = call.operands[0]
    text, span, whole = expression.of(operand), expression.span_of(operand), expression.of(value)
    if text is None or span is None or whole is None:
        return
    failed = raises(fill(call.casts, [text]), fill(call.rows.guard, [text]))
    line = expression.line_of(value)
    condition, message = fill(call.rows.condition, [text]), fill(call.rows.message, [text])
    site = FoundSite(whole, line, failed, condition, message)
    yield span, text, Fallible(text, line, failed, (site,), operand, certain=False)


def aggregation_operators(
    rewrite: SelectRewrite, given: Sequence[Given], where: WhereConditions, windowed: bool
) -> Iterator[Operator]:
    rows: list[Fallible] = []
    groups: list[Fallible] = []
    arguments: list[Fallible] = []
    overflows: list[Overflow] = []
    items: list[Edit] = []
    unnamed = False
    for one in given:
        if not one.aggregates:
            wrong = rewrite.failing(one.expression, one.windows)
            if wrong is not None:
                rewrite.refuse_aliases(one)
                rows.append(wrong)
            continue
        span = rewrite.code.span(one.item.part)
        guarded = _guarded(rewrite, one.expression, one.aggregates)
        text = guarded.text
        arguments += guarded.arguments
        overflows += guarded.overflows
        failing_aggregates = rewrite.failing(guarded.expression, aggregates(guarded.expression.tree))
        wrong = or_overflowing(failing_aggregates, guarded.expression, guarded.overflows)
        if wrong is None and not guarded.arguments:
            continue
        unnamed |= one.item.alias is None
        if wrong is not None:
            groups.append(wrong)
        if failing_aggregates is not None:
            text = failing_aggregates.attempt or value_or_null(
                failing_aggregates.text, wrong.failed if wrong is not None else failing_aggregates.failed
            )
        items.append(Edit(*span, text))
    rows += _failing_keys(rewrite, given)
    having = _having(rewrite)
    arguments += having.arguments
    overflows += having.overflows
    failing = [*rows, *arguments]
    if not (failing or groups or where.failing or having.failing):
        return
    if windowed:
        raise RefusedError("a window beside an aggregate", rewrite.line)
    if failing or where.failing:
        yield operator_of_rows(rewrite, where, failing)
    if rows:
        rewrite.leave_out("where", f"NOT ({any_of([one.failed for one in rows])})", rewrite.from_end)
        rewrite.edit_constants(given, rows)
    rewrite.edits += items
    without = [f"NOT coalesce(bool_or({any_of([one.failed for one in arguments])}), false)"] if arguments else []
    if groups or having.failing:
        shown = [_as_written(one, arguments, overflows) for one in (*having.failing, *groups)]
        yield _operator_of_groups(rewrite, given, shown, without, having)
    without += [f"NOT ({any_of([one.failed for one in groups])})"] if groups else []
    if without:
        _refuse_sorting(rewrite)
        rewrite.leave_out("having", " AND ".join(without), rewrite.end_of_groups)
    if unnamed:
        rewrite.keep_names()


def _operator_of_groups(
    rewrite: SelectRewrite,
    given: Sequence[Given],
    expressions: Sequence[Fallible],
    without: Sequence[str],
    having: _Having,
) -> Operator:
    """Return the operator of what is computed from the aggregates of each group."""
    conditions = [*without, *having.clean, any_of([one.failed for one in expressions])]
    conditions += [true_or_false(one.text, one.failed, "true") for one in having.failing]
    start = rewrite.from_start if rewrite.select.relations else rewrite.from_end
    clauses = rewrite.rendered(start, rewrite.end_of_groups)
    keys = [one for one in given if not one.aggregates]
    fields = ", ".join(f"{literal(one.item.alias or one.expression.text)}, {one.expression.text}" for one in keys)
    row = json_of(f"named_struct({fields})") if fields else literal("{}")
    begin = "FROM " if rewrite.select.relations else ""
    rows = f"{begin}{clauses} HAVING {' AND '.join(f'({condition})' for condition in conditions)}"
    return Operator(error_query(rewrite.location, expressions, row, rewrite.key(), rows), rewrite.line)


def _having(rewrite: SelectRewrite) -> _Having:
    part = rewrite.select.clause("having")
    clean: list[str] = []
    failing: list[Fallible] = []
    arguments: list[Fallible] = []
    overflows: list[Overflow] = []
    for condition in conjuncts(rewrite.code, part) if part is not None else ():
        whole = rewrite.expression(condition)
        guarded = _guarded(rewrite, whole, aggregates(whole.tree))
        text = guarded.text
        arguments += guarded.arguments
        overflows += guarded.overflows
        failing_aggregates = rewrite.failing(guarded.expression, aggregates(guarded.expression.tree))
        wrong = or_overflowing(failing_aggregates, guarded.expression, guarded.overflows)
        if wrong is not None:
            failing.append(wrong)
            text = wrong.truth
        else:
            clean.append(text)
        if wrong is not None or guarded.arguments:
            rewrite.edits.append(Edit(*rewrite.code.span(condition), text))
    return _Having(tuple(clean), tuple(failing), tuple(arguments), tuple(overflows))


def _guarded(rewrite: SelectRewrite, expression: ExpressionText, values: Iterable[exp.Expr]) -> _Guarded:
    """Return an expression whose aggregates leave out values that cannot be evaluated."""
    edits: list[Edit] = []
    failing: list[Fallible] = []
    overflows: list[Overflow] = []
    for value in values:
        if isinstance(value, exp.Filter):
            refuse_inside(expression, value.expression, "the FILTER of an aggregate")
        for argument, condition in _arguments(value):
            span = expression.span_of(argument)
            text = expression.of(argument)
            if span is None or text is None:
                refuse_inside(expression, argument, "an aggregate")
                continue
            wrong = rewrite.failing(ExpressionText(text, expression.line_of(argument)))
            if wrong is None:
                continue
            if condition is not None:
                only = expression.of(condition)
                if only is None:
                    raise RefusedError("the FILTER of an aggregate", expression.line)
                wrong = only_where(wrong, f"coalesce(({only}), false)")
            failing.append(wrong)
            edits.append(Edit(*span, wrong.value))
        if not failing and not rewrite.only_certain:
            for span, text, wrong in _cast_arguments(expression, value):
                failing.append(wrong)
                edits.append(Edit(*span, value_or_null(text, wrong.failed)))
        _refuse_orders(rewrite, expression, value)
        overflow = None if rewrite.only_certain else overflow_of(expression, value, edits)
        if overflow is not None:
            overflows.append(overflow)
            edits.append(Edit(*overflow.span, overflow.attempt))
    if edits:
        expression = ExpressionText(on_one_line(apply_edits(expression.text, edits)), expression.line)
    return _Guarded(expression, tuple(failing), tuple(overflows))


def _refuse_sorting(rewrite: SelectRewrite) -> None:
    """Refuse an ORDER BY of an aggregate, which Spark does not read behind a HAVING."""
    part = rewrite.select.clause("order")
    for key in rewrite.code.by_commas(part) if part is not None else ():
        expression = rewrite.expression(rewrite.without_direction(key))
        if aggregates(expression.tree):
            raise RefusedError(
                "an ORDER BY of an aggregate without the name that it has in the SELECT list", expression.line
            )


def _refuse_orders(rewrite: SelectRewrite, expression: ExpressionText, value: exp.Expr) -> None:
    for order in value.find_all(exp.Order):
        refuse_inside(expression, order, "the ORDER BY of an aggregate")


def _failing_keys(rewrite: SelectRewrite, given: Sequence[Given]) -> list[Fallible]:
    """Return the keys of GROUP BY that can fail and are no item of the SELECT list."""
    part = rewrite.select.clause("group")
    if part is None or rewrite.code.word(part.start) == "ALL":
        return []
    failing = []
    for key in rewrite.code.by_commas(part):
        if rewrite.code.word(key.start) in ("ROLLUP", "CUBE", "GROUPING") or rewrite.code.type(key.start) is None:
            continue
        expression = rewrite.expression(key)
        wrong = rewrite.failing(expression)
        if wrong is not None and all(one.expression.tree != expression.tree for one in given):
            failing.append(wrong)
    return failing


def _as_written(expression: Fallible, arguments: Iterable[Fallible], overflows: Iterable[Overflow]) -> Fallible:
    """Return the expression with its author's text, without the guards and attempts of its aggregates."""
    written = {one.attempt: one.text for one in overflows}
    written |= {argument.value: argument.text for argument in arguments}

    def plain(text: str) -> str:
        for guarded, original in written.items():
            text = text.replace(guarded, original)
        return text

    sites = tuple(replace(site, text=plain(site.text)) for site in expression.sites)
    return replace(expression, text=plain(expression.text), sites=sites)


def _arguments(value: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    """Yield the arguments of an aggregate function, each with the condition of its FILTER."""
    condition = None
    if isinstance(value, exp.Filter):
        condition = value.expression.this
        value = value.this
    for child in value.iter_expressions():
        if isinstance(child, exp.Distinct):
            for argument in child.expressions:
                yield argument, condition
        elif not isinstance(child, exp.Order | exp.Star):
            yield child, condition
