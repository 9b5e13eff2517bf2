"""Separating a query into the rows that can be evaluated and the errors of those that cannot.

Each operator of the query, that is each SELECT in it, is treated by itself: its errors are those of its own expressions
on its input, and its input are the good rows of the operators below. So the good rows of a query need no trace of the
bad ones, and the errors of an operator are asked with a query of its own over the same input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import TokenType

from rivet_dagster.model.row_errors import ComparedTypes, NotSeparable, Proof, RowErrors
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import read_query
from rivet_dagster.sql.row_errors.aggregates import aggregates, windows
from rivet_dagster.sql.row_errors.aggregation_errors import aggregation_operators
from rivet_dagster.sql.row_errors.error_query import QueryLocation, number_of_sites
from rivet_dagster.sql.row_errors.fallible import shown_site
from rivet_dagster.sql.row_errors.filter_and_projection_errors import conditions, projection_operators, window_operators
from rivet_dagster.sql.row_errors.join_errors import compared_types, join_operators
from rivet_dagster.sql.row_errors.raising import RefusedError
from rivet_dagster.sql.row_errors.select_clauses import ReadRelation, select_of
from rivet_dagster.sql.row_errors.select_rewrite import Operator, SelectRewrite
from rivet_dagster.sql.row_errors.token_ranges import Code, Edit, Range, apply_edits, on_one_line

_QUERY_BEGINS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.TABLE})
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})


_WEAKEST_FIRST: tuple[Proof, ...] = ("never", "with rows", "always")


_LONGEST = 2_100_000
"""The most characters of the query of a SELECT's errors.

A driver of 1 GB plans 1,000 casts in columns of their own (1,300,000 characters), 300 casts that are divided
(2,000,000) and a sum of 70 casts (1,800,000: it grows with the square of its places), but no sum of 80 (2,300,000).
"""


@dataclass(frozen=True)
class _Scope:
    """What surrounds a part of a query.

    ``withs`` are the definitions of the CTEs that it sees, after their own rewrite, by name; ``recursive`` says whether
    one of them is. ``failing`` are the names of those with errors; ``refused`` is why the part must have none. All rows
    of the part are the query's if ``is_result``, unless it ``is_limited``.
    """

    withs: tuple[tuple[str, str], ...] = ()
    recursive: bool = False
    failing: frozenset[str] = frozenset()
    refused: str | None = None
    is_result: bool = False
    is_limited: bool = False


def separate(sql: str, location: QueryLocation, keys: Sequence[str] = ()) -> RowErrors | NotSeparable | None:
    """Return the good rows and the errors of a query; None if no row of it can fail to be evaluated.

    ``keys`` are the columns of its result that are the key of a row of the target.

    >>> separate("SELECT upper(a) AS a FROM t", QueryLocation("j")) is None
    True
    >>> separate("SELECT to_date(a) AS a FROM t", QueryLocation("j")).good
    "SELECT to_date(a) AS a FROM t WHERE NOT ((...) AND try_add(DATE'1970-01-01', size(array_repeat(to_date(a), 1)))..."
    """
    query = read_query(sql)
    if query.tree is None:
        return NotSeparable(construct="a query that only Spark can read", line=1)
    code = Code.of(query.text)
    work = _Separation(code, location, tuple(keys))
    try:
        work.query(code.whole, _Scope(is_result=True))
    except RefusedError as error:
        return NotSeparable(construct=error.construct, line=error.line)
    except UnreadableSql:
        return NotSeparable(construct="an expression that only Spark can read", line=1)
    if not work.queries and not work.compared:
        return None
    proof = next(proof for proof in _WEAKEST_FIRST if proof in work.proofs or proof == "always")
    good, compared = apply_edits(code.text, work.edits), tuple(work.compared)
    return RowErrors(good=good, queries=tuple(work.queries), proof=proof, compared=compared)


class _Separation:
    def __init__(self, code: Code, location: QueryLocation, keys: tuple[str, ...]) -> None:
        self.code = code
        self.location = location
        self.keys = keys
        self.edits: list[Edit] = []
        self.queries: list[str] = []
        self.compared: list[ComparedTypes] = []
        self.proofs: set[Proof] = set()

    def query(self, part: Range, scope: _Scope) -> bool:
        """Rewrite a query that is a range of tokens, and return whether it has errors."""
        code = self.code
        before = len(self.queries)
        start = part.start
        if code.type(start) == TokenType.WITH:
            start, scope = self._withs(part, scope)
        operands = code.split(Range(start, part.end), self._is_set_operation)
        scope = self._with_set_operations(operands, scope)
        if code.find(part, (TokenType.LIMIT, TokenType.OFFSET)) is not None:
            scope = replace(scope, is_limited=True)
        for operand in operands:
            self._operand(self._without_quantifier(operand), scope)
        return len(self.queries) > before

    def _withs(self, part: Range, scope: _Scope) -> tuple[int, _Scope]:
        """Rewrite the CTEs of a WITH, and return the index behind it and the scope of the query that follows."""
        code, index = self.code, part.start + 1
        recursive = code.word(index) == "RECURSIVE"
        index += recursive
        while True:
            name, first = code.tokens[index].text, index
            while not (
                code.type(index) == TokenType.L_PAREN and code.type(index + 1) in {*_QUERY_BEGINS, TokenType.L_PAREN}
            ):
                index += 1
                if index >= part.end:
                    raise RefusedError("a WITH that could not be read", code.line(part))
            end = code.partner[index]
            inner = replace(scope, is_result=False)
            if recursive:
                inner = replace(inner, refused=scope.refused or "a recursive query")
            failing = self.query(Range(index + 1, end), inner)
            definition = on_one_line(apply_edits(code.text, self.edits, *code.span(Range(first, end + 1))))
            scope = replace(
                scope,
                withs=(*scope.withs, (name.lower(), definition)),
                recursive=scope.recursive or recursive,
                failing=scope.failing | {name.lower()} if failing else scope.failing - {name.lower()},
            )
            index = end + 1
            if code.type(index) != TokenType.COMMA:
                return index, scope
            index += 1

    def _opens_query(self, index: int) -> bool:
        code = self.code
        return code.type(index) == TokenType.L_PAREN and code.type(index + 1) in _QUERY_BEGINS | {TokenType.L_PAREN}

    def _is_set_operation(self, index: int) -> bool:
        code = self.code
        is_one = code.type(index) in _SET_OPERATIONS or code.word(index) == "MINUS"
        return is_one and code.type(index - 1) != TokenType.STAR

    def _with_set_operations(self, operands: Sequence[Range], scope: _Scope) -> _Scope:
        words = {self.code.word(operand.start - 1) for operand in operands[1:]} - {"UNION"}
        return replace(scope, refused=scope.refused or f"an operand of {sorted(words)[0]}") if words else scope

    def _without_quantifier(self, operand: Range) -> Range:
        start = operand.start
        while self.code.word(start) in ("ALL", "DISTINCT", "BY", "NAME"):
            start += 1
        return Range(start, operand.end)

    def _operand(self, part: Range, scope: _Scope) -> None:
        code = self.code
        kind = code.type(part.start)
        if self._opens_query(part.start):
            self.query(Range(part.start + 1, code.partner[part.start]), scope)
        elif kind == TokenType.SELECT:
            self._select(part, scope)
        elif kind == TokenType.FROM:
            tree = read_query(code.of_range(part)).tree
            if tree is None or shown_site(tree) is not None:
                raise RefusedError("a query that begins with FROM, as those with pipes do", code.line(part))

    def _select(self, part: Range, scope: _Scope) -> None:
        select = select_of(self.code, part)
        keys = self.keys if scope.is_result else None
        rewrite = SelectRewrite(self.code, self.location, select, self.edits, keys, scope.refused is not None)
        for relation, context in relations(rewrite):
            inner = replace(scope, is_result=False, refused=scope.refused or context)
            if relation.subquery is not None and self.code.type(relation.subquery.start) in {
                *_QUERY_BEGINS,
                TokenType.L_PAREN,
            }:
                self.query(relation.subquery, inner)
            elif context is not None and relation.name is not None and self._first_name(relation.part) in scope.failing:
                raise RefusedError(context, self.code.line(relation.part))
        self._inner_subqueries(part, [r.part for r in select.relations if not r.lateral], scope)
        for operator in self._operators(rewrite):
            self._add(operator, scope)
        withs = self._withs_of(scope)
        self.compared += [
            replace(one, left=f"{withs}{one.left}", right=f"{withs}{one.right}")
            for one in compared_types(rewrite, scope.refused is not None)
        ]

    def _operators(self, rewrite: SelectRewrite) -> list[Operator]:
        """Return the operators of a SELECT that have errors.

        If errors would be refused that only some types of operands have, those are left to fail the run.
        """
        before = len(self.edits)
        try:
            return list(operators(rewrite))
        except RefusedError:
            if rewrite.only_certain:
                raise
            del self.edits[before:]
            return list(operators(rewrite.of_certain_errors()))

    def _first_name(self, part: Range) -> str:
        return self.code.tokens[part.start].text.lower()

    def _inner_subqueries(self, part: Range, relations: Sequence[Range], scope: _Scope) -> None:
        """Refuse errors within subqueries of the expressions of a SELECT."""
        code = self.code
        inner = replace(scope, is_result=False, refused=scope.refused or "a subquery within an expression")
        index = part.start
        while index < part.end:
            relation = next((r for r in relations if r.start <= index < r.end), None)
            if relation is not None:
                index = relation.end
                continue
            if code.type(index) == TokenType.L_PAREN and code.type(index + 1) in _QUERY_BEGINS - {TokenType.FROM}:
                closing = code.partner[index]
                self.query(Range(index + 1, closing), inner)
                for name in range(index + 1, closing):
                    if code.tokens[name].text.lower() in scope.failing:
                        raise RefusedError("a subquery within an expression", code.line(Range(name, name + 1)))
                index = closing
            index += 1

    def _add(self, operator: Operator, scope: _Scope) -> None:
        if scope.refused is not None:
            raise RefusedError(scope.refused, operator.line)
        names = [name for name, _ in scope.withs]
        if len(set(names)) < len(names):
            raise RefusedError("a CTE that hides another one of its name", operator.line)
        query = f"{self._withs_of(scope)}{operator.errors}"
        if len(query) > _LONGEST:
            raise RefusedError(
                f"{number_of_sites(query)} places that can fail in one SELECT (the query of their errors would have "
                f"{len(query):,} characters, of at most {_LONGEST:,}: split the joint)",
                operator.line,
            )
        self.queries.append(query)
        self.proofs.add(operator.proof if scope.is_result and not scope.is_limited else "never")

    def _withs_of(self, scope: _Scope) -> str:
        word = "WITH RECURSIVE" if scope.recursive else "WITH"
        return f"{word} {', '.join(definition for _, definition in scope.withs)} " if scope.withs else ""


def relations(rewrite: SelectRewrite) -> Iterator[tuple[ReadRelation, str | None]]:
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
    where = conditions(rewrite)
    known = [one for one in given if one is not None]
    grouped = rewrite.select.clause("group") is not None or any(one.aggregates for one in known)
    windowed = any(one.windows for one in known)
    _refuse_order(rewrite)
    if grouped:
        yield from aggregation_operators(rewrite, known, where, windowed)
    elif windowed:
        yield from window_operators(rewrite, known, where)
    else:
        yield from projection_operators(rewrite, known, where)


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
