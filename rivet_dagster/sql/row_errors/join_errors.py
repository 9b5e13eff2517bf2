"""The errors of the conditions and keys of joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import TokenType, exp

from rivet_dagster.model.row_errors import ComparedTypes, Proof
from rivet_dagster.sql.row_errors.fallible import Fallible, FoundSite
from rivet_dagster.sql.row_errors.implicit_casts import CAST_INVALID_INPUT, casts_a_string, fails_to_cast, text_of
from rivet_dagster.sql.row_errors.raising import RefusedError, literal, value_or_null
from rivet_dagster.sql.row_errors.select_clauses import ReadRelation, conjuncts
from rivet_dagster.sql.row_errors.select_rewrite import Operator, SelectRewrite, refuse_inside
from rivet_dagster.sql.row_errors.site import fill, type_of, value_text
from rivet_dagster.sql.row_errors.token_ranges import Edit, ExpressionText, Range

_INNER = frozenset({"", "INNER", "CROSS"})
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def join_operators(rewrite: SelectRewrite) -> Iterator[Operator]:
    """Yield the operators of the conditions of joins that have errors, and edit these conditions."""
    relations = rewrite.select.relations
    proof: Proof = "with rows" if _is_of_one_condition(rewrite) else "never"
    for index, relation in enumerate(relations):
        if relation.joined == "LATERAL VIEW":
            _refuse_generator(rewrite, relation)
        if relation.condition is None:
            continue
        for part in conjuncts(rewrite.code, relation.condition):
            expression = rewrite.expression(part)
            failing = rewrite.failing(expression)
            if failing is None or (not failing.certain and relation.joined not in _INNER):
                continue
            if (
                _is_comparison_of_columns(expression.tree)
                and _sides(rewrite, relations[: index + 1], expression) is None
            ):
                continue  # it is not known which column belongs to which side
            if relation.joined not in _INNER:
                raise RefusedError("the condition of an outer, semi or anti join", expression.line)
            # Whether there is a cast at all, ``compared_types`` tells.
            cause = "with rows" if not failing.certain and isinstance(expression.tree, _COMPARISONS) else proof
            for operator in _join_condition(rewrite, relations[: index + 1], part, expression, failing):
                yield replace(operator, proof=cause)


def _is_of_one_condition(rewrite: SelectRewrite) -> bool:
    """Return whether Spark evaluates the condition of the only join for all rows, if neither side is empty.

    Another condition, that a key is not NULL included, may leave out rows before.
    """
    joined = rewrite.select.relations[1:]
    if len(joined) != 1 or joined[0].condition is None or rewrite.select.clause("where") is not None:
        return False
    return len(conjuncts(rewrite.code, joined[0].condition)) == 1


def compared_types(rewrite: SelectRewrite, is_refused: bool) -> Iterator[ComparedTypes]:
    """Yield the keys of joins whose casts, if their types call for any, could not be separated, or not be proven.

    ``is_refused`` says that no error of the SELECT could be separated.
    """
    are_proven = _is_of_one_condition(rewrite)
    relations = rewrite.select.relations
    for index, relation in enumerate(relations[1:], 1):
        if relation.lateral:
            continue
        end = relation.part.end
        before = rewrite.rendered(rewrite.from_start, rewrite.code.tokens[relation.join].start)
        right = rewrite.rendered(*rewrite.code.span(relation.part))
        columns = None
        if "NATURAL" in relation.joined:
            columns = "*"
        elif rewrite.code.type(end) == TokenType.USING:
            columns = rewrite.code.of_range(Range(end + 2, rewrite.code.partner[end + 1]))
        if columns is not None:
            sides = (f"SELECT {columns} FROM {before}", f"SELECT {columns} FROM {right}")
            yield ComparedTypes(
                left=sides[0], right=sides[1], construct=_CAST_OF_KEYS, line=rewrite.code.line(relation.part)
            )
        if relation.condition is None:
            continue
        for part in conjuncts(rewrite.code, relation.condition):
            expression = rewrite.expression(part)
            tree = expression.tree
            if not isinstance(tree, _COMPARISONS) or casts_a_string((tree.left, tree.right)) is None:
                continue
            if text_of(tree.left) is not None or text_of(tree.right) is not None:
                continue  # a constant, which fails for no row or for all
            sides_known = _sides(rewrite, relations[: index + 1], expression) is not None
            is_separated = relation.joined in _INNER and not is_refused
            is_separated &= sides_known or not _is_comparison_of_columns(tree)
            if (are_proven or rewrite.is_certain(expression)) if is_separated else not isinstance(tree, exp.EQ):
                continue
            texts = expression.of(tree.left), expression.of(tree.right)
            rows = f"FROM {before} LEFT JOIN ({right}) ON false"
            left, other = (f"SELECT {text} AS value {rows}" for text in texts)
            if None not in texts:
                yield ComparedTypes(
                    left=left, right=other, construct=_CAST_OF_KEYS, line=expression.line, is_separated=is_separated
                )


_CAST_OF_KEYS = "the comparison of a string with another type in a join"


def _join_condition(
    rewrite: SelectRewrite,
    relations: Sequence[ReadRelation],
    part: Range,
    expression: ExpressionText,
    failing: Fallible,
) -> Iterator[Operator]:
    sides = _sides(rewrite, relations, expression)
    start, end = rewrite.code.span(part)
    before = rewrite.code.tokens[relations[-1].join].start
    prefix = rewrite.rendered(rewrite.from_start, before)
    if sides is None:
        on_start = rewrite.code.tokens[relations[-1].condition.start].start if relations[-1].condition else start
        others = rewrite.rendered(on_start, start), rewrite.rendered(end, rewrite.end_of(relations[-1].condition))
        joined = rewrite.rendered(before, on_start)
        rows = f"FROM {prefix} {joined} {others[0]} ({failing.failed}) {others[1]}"
        rewrite.edits.append(Edit(start, end, failing.truth))
        yield rewrite.operator([failing], relations, rows)
        return
    new = []
    right = rewrite.rendered(*rewrite.code.span(relations[-1].part))
    for (text, inside, side), (compared, _, _) in zip(sides, reversed(sides), strict=True):
        here, other = (prefix, right) if side else (right, prefix)
        wrong = rewrite.failing(text)
        values = text.text
        if wrong is not None:
            values = f"({wrong.value})"
            yield rewrite.operator([wrong], inside, f"FROM {here} WHERE {wrong.failed}")
        cast = _cast(expression, text.tree, values, compared)
        if cast is not None:
            # The other side gives no row here, only the type to which Spark casts.
            rows = f"FROM {here} LEFT JOIN ({other}) ON false WHERE {cast.failed}"
            values = f"({value_or_null(values, cast.failed)})"
            yield rewrite.operator([cast], inside, rows, among_others=True)
        new.append(values)
    rewrite.edits.append(Edit(start, end, " = ".join(new)))


def _cast(expression: ExpressionText, key: exp.Expr, values: str, compared: ExpressionText) -> Fallible | None:
    """Return how the cast of a key fails that Spark adds where the key is a string and the other side's is not."""
    guard = casts_a_string((key, compared.tree))
    if guard is None:
        return None
    operands = [values, compared.text]
    failed = f"({fill(guard, operands)}) AND {fill(fails_to_cast(0, 1), operands)}"
    message = fill(
        f"concat({value_text(0)}, ' of the type STRING cannot be cast to compare it with ', {type_of(1)}, '.')",
        operands,
    )
    site = FoundSite(expression.text, expression.line, failed, literal(CAST_INVALID_INPUT), message)
    return Fallible(expression.text, expression.line, failed, (site,), expression.tree, certain=False)


def _sides(
    rewrite: SelectRewrite, relations: Sequence[ReadRelation], expression: ExpressionText
) -> list[tuple[ExpressionText, Sequence[ReadRelation], bool]] | None:
    """Return the sides of an equality of a join, each with its relations; None if it is no such equality."""
    tree = expression.tree
    commas = any(not relation.joined for relation in relations[1:])
    if not isinstance(tree, exp.EQ) or commas or relations[-1].lateral:
        return None
    right = (relations[-1].name or "").lower()
    left = {(relation.name or "").lower() for relation in relations[:-1]}
    sides: list[tuple[ExpressionText, Sequence[ReadRelation], bool]] = []
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


def _refuse_generator(rewrite: SelectRewrite, relation: ReadRelation) -> None:
    code = rewrite.code
    first = relation.part.start + 2
    first += code.word(first) == "OUTER"
    opening = code.find(Range(first, relation.part.end), (TokenType.L_PAREN,))
    if opening is not None:
        call = rewrite.expression(Range(first, code.partner[opening] + 1))
        refuse_inside(call, call.tree, "a LATERAL VIEW of an expression")


def _is_comparison_of_columns(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.EQ) and all(isinstance(side, exp.Column) for side in (tree.left, tree.right))
