"""The errors of the conditions and keys of joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import TokenType, exp

from rivet_dagster.sql.evaluation.clauses import Relation, conjuncts
from rivet_dagster.sql.evaluation.code import Edit, Range
from rivet_dagster.sql.evaluation.expression_text import ExpressionText
from rivet_dagster.sql.evaluation.raising import true_or_false, value_or_null
from rivet_dagster.sql.evaluation.refusal import RefusedError
from rivet_dagster.sql.evaluation.select_rewrite import Operator, SelectRewrite, refuse_inside
from rivet_dagster.sql.evaluation.sites import Fallible

_INNER = frozenset({"", "INNER", "CROSS"})


def join_operators(rewrite: SelectRewrite) -> Iterator[Operator]:
    relations = rewrite.select.relations
    for index, relation in enumerate(relations):
        if relation.joined == "LATERAL VIEW":
            _refuse_generator(rewrite, relation)
        if relation.condition is None:
            continue
        for part in conjuncts(rewrite.code, relation.condition):
            expression = rewrite.expression(part)
            if _is_comparison_of_columns(expression.tree):
                continue
            failing = rewrite.failing(expression)
            if failing is None or (not failing.certain and relation.joined not in _INNER):
                continue
            if relation.joined not in _INNER:
                raise RefusedError("the condition of an outer, semi or anti join", expression.line)
            yield from _join_condition(rewrite, relations[: index + 1], part, expression, failing)


def _join_condition(
    rewrite: SelectRewrite, relations: Sequence[Relation], part: Range, expression: ExpressionText, failing: Fallible
) -> Iterator[Operator]:
    sides = _sides(rewrite, relations, expression)
    start, end = rewrite.code.place(part)
    before = rewrite.code.tokens[relations[-1].join].start
    prefix = rewrite.rendered(rewrite.from_start, before)
    if sides is None:
        on_start = rewrite.code.tokens[relations[-1].condition.start].start if relations[-1].condition else start
        others = rewrite.rendered(on_start, start), rewrite.rendered(end, rewrite.end_of(relations[-1].condition))
        joined = rewrite.rendered(before, on_start)
        rows = f"FROM {prefix} {joined} {others[0]} ({failing.failed}) {others[1]}"
        rewrite.edits.append(Edit(start, end, true_or_false(failing.text, failing.failed)))
        yield rewrite.operator([failing], relations, rows)
        return
    new = []
    for text, inside, side in sides:
        wrong = rewrite.failing(text)
        new.append(text.text if wrong is None else f"({value_or_null(wrong.text, wrong.failed)})")
        if wrong is not None:
            rows = prefix if side else rewrite.rendered(*rewrite.code.place(relations[-1].part))
            yield rewrite.operator([wrong], inside, f"FROM {rows} WHERE {wrong.failed}")
    rewrite.edits.append(Edit(start, end, " = ".join(new)))


def _sides(
    rewrite: SelectRewrite, relations: Sequence[Relation], expression: ExpressionText
) -> list[tuple[ExpressionText, Sequence[Relation], bool]] | None:
    """Return the sides of an equality of a join, each with its relations; None if it is no such equality."""
    tree = expression.tree
    if not isinstance(tree, exp.EQ):
        return None
    right = (relations[-1].name or "").lower()
    left = {(relation.name or "").lower() for relation in relations[:-1]}
    sides: list[tuple[ExpressionText, Sequence[Relation], bool]] = []
    for node in (tree.left, tree.right):
        tables = {column.table.lower() for column in node.find_all(exp.Column)}
        text = expression.of(node)
        if text is None or not tables or "" in tables:
            return None
        if tables == {right}:
            sides.append((ExpressionText(text, expression.line_of(node)), relations[-1:], False))
        elif tables <= left:
            sides.append((ExpressionText(text, expression.line_of(node)), relations[:-1], True))
        else:
            return None
    return sides if sides[0][2] != sides[1][2] else None


def _refuse_generator(rewrite: SelectRewrite, relation: Relation) -> None:
    code = rewrite.code
    first = relation.part.start + 2
    first += code.word(first) == "OUTER"
    opening = code.find(Range(first, relation.part.end), (TokenType.L_PAREN,))
    if opening is not None:
        call = rewrite.expression(Range(first, code.partner[opening] + 1))
        refuse_inside(call, call.tree, "a LATERAL VIEW of an expression")


def _is_comparison_of_columns(tree: exp.Expr) -> bool:
    """Return whether a join compares two columns: whether their types differ is for Spark to say, when it runs."""
    return isinstance(tree, exp.EQ) and all(isinstance(side, exp.Column) for side in (tree.left, tree.right))
