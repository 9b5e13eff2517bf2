"""The clauses of a SELECT as ranges of its tokens: the items, the relations and joins of FROM, and the conditions."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import TokenType, exp

from rivet_dagster.sql.parsing.dialect import parse_item
from rivet_dagster.sql.row_errors.raising import RefusedError
from rivet_dagster.sql.row_errors.token_ranges import Code, Range

_WORDS: dict[TokenType, str] = {
    TokenType.FROM: "from",
    TokenType.WHERE: "where",
    TokenType.GROUP_BY: "group",
    TokenType.HAVING: "having",
    TokenType.QUALIFY: "qualify",
    TokenType.WINDOW: "window",
    TokenType.ORDER_BY: "order",
    TokenType.SORT_BY: "order",
    TokenType.CLUSTER_BY: "order",
    TokenType.DISTRIBUTE_BY: "order",
    TokenType.LIMIT: "limit",
    TokenType.OFFSET: "limit",
    TokenType.PIPE_GT: "pipe",
}
_BEFORE_JOIN = frozenset({"NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "SEMI", "ANTI", "OUTER"})
_WRITTEN_AS_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


@dataclass(frozen=True)
class SelectItem:
    """An item of a SELECT list: its range without the alias, and the alias, None where it has none."""

    part: Range
    alias: str | None


@dataclass(frozen=True)
class ReadRelation:
    """A relation of a FROM: its range, the range within the parentheses of a subquery, and the name that columns have.

    ``joined`` is how it is joined to those before it: "INNER", "LEFT"..., or "" for the first one and behind a comma.
    ``condition`` is the range of its ON, ``join`` the index of the token with which the join begins.
    """

    part: Range
    subquery: Range | None
    name: str | None
    joined: str
    join: int
    condition: Range | None = None
    lateral: bool = False


@dataclass(frozen=True)
class Select:
    """The clauses of a SELECT, each as the range of its content without its first word; None where it has none.

    ``end_of_rows`` is the index behind the last token of FROM, or of the items where there is none.
    """

    part: Range
    items: tuple[SelectItem, ...]
    relations: tuple[ReadRelation, ...]
    clauses: dict[str, Range]
    end_of_rows: int
    distinct: bool

    def clause(self, name: str) -> Range | None:
        """Return the range of a clause: from, where, group, having, qualify, window, order, limit or pipe."""
        return self.clauses.get(name)


def select_of(code: Code, part: Range) -> Select:
    """Return the clauses of the SELECT that is the range ``part``. Raises RefusedError, UnreadableSql."""
    bounds: list[tuple[int, str]] = []
    for index in code.outside(part):
        kind = code.type(index)
        if kind in _WORDS and not (kind == TokenType.FROM and _is_distinct_from(code, index)):
            bounds.append((index, _WORDS[kind]))
    clauses: dict[str, Range] = {}
    ends = [*(index for index, _ in bounds[1:]), part.end]
    for (index, name), end in zip(bounds, ends, strict=False):
        clauses.setdefault(name, Range(index + 1, end))
    first = bounds[0][0] if bounds else part.end
    start = part.start + 1
    while code.type(start) in (TokenType.HINT, TokenType.ALL, TokenType.DISTINCT):
        start += 1
    distinct = any(code.type(index) == TokenType.DISTINCT for index in range(part.start, start))
    items = tuple(_item(code, item) for item in code.by_commas(Range(start, first)))
    source = clauses.get("from")
    relations = tuple(_relations(code, source)) if source is not None else ()
    return Select(part, items, relations, clauses, source.end if source is not None else first, distinct)


def conjuncts(code: Code, part: Range) -> list[Range]:
    """Return the conditions that AND joins in a condition, also within parentheses around conditions."""
    inner = _within_parentheses(code, part)
    if inner is not None:
        return conjuncts(code, inner)
    parts = _joined_by_and(code, part)
    return parts if len(parts) == 1 else [condition for each in parts for condition in conjuncts(code, each)]


def _within_parentheses(code: Code, part: Range) -> Range | None:
    encloses = code.type(part.start) == TokenType.L_PAREN and code.partner.get(part.start) == part.end - 1
    is_query = code.word(part.start + 1) in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
    return Range(part.start + 1, part.end - 1) if encloses and not is_query and part.end - part.start > 2 else None


def _joined_by_and(code: Code, part: Range) -> list[Range]:
    between, cases, ends = 0, 0, []
    for index in code.outside(part):
        kind = code.type(index)
        if kind == TokenType.CASE:
            cases += 1
        elif kind == TokenType.END and cases:
            cases -= 1
        elif cases:
            continue
        elif kind == TokenType.OR:
            return [part]
        elif kind == TokenType.BETWEEN:
            between += 1
        elif kind == TokenType.AND and between:
            between -= 1
        elif kind == TokenType.AND:
            ends.append(index)
    starts = [part.start, *(index + 1 for index in ends)]
    return [Range(start, end) for start, end in zip(starts, [*ends, part.end], strict=True)]


def _is_distinct_from(code: Code, index: int) -> bool:
    return code.type(index - 1) == TokenType.DISTINCT and code.word(index - 2) in ("IS", "NOT")


def _item(code: Code, part: Range) -> SelectItem:
    if part.start >= part.end:
        raise RefusedError("a SELECT list that could not be read", code.line(part))
    tree = parse_item(code.of_range(part))
    if not isinstance(tree, exp.Alias):
        return SelectItem(part, None)
    end = part.end - 1
    if code.type(end - 1) == TokenType.ALIAS:
        end -= 1
    return SelectItem(Range(part.start, end), tree.alias)


def _relations(code: Code, part: Range) -> list[ReadRelation]:
    """Return the relations of a FROM in order."""
    bounds = [(part.start, "")]
    for index in code.outside(part):
        if code.type(index) == TokenType.COMMA:
            bounds.append((index, ""))
        elif code.type(index) == TokenType.JOIN:
            first = index
            while first - 1 > part.start and code.word(first - 1) in _BEFORE_JOIN:
                first -= 1
            bounds.append((first, " ".join(code.word(i) for i in range(first, index)) or "INNER"))
        elif code.word(index) == "LATERAL" and code.word(index + 1) == "VIEW":
            bounds.append((index, "LATERAL VIEW"))
    ends = [*(index for index, _ in bounds[1:]), part.end]
    return [_relation(code, start, end, joined, part) for (start, joined), end in zip(bounds, ends, strict=True)]


def _relation(code: Code, start: int, end: int, joined: str, source: Range) -> ReadRelation:
    if joined == "LATERAL VIEW":
        return ReadRelation(Range(start, end), None, None, joined, start, lateral=True)
    first = start
    if joined:
        first = next(i for i in range(start, end) if code.type(i) == TokenType.JOIN) + 1
    elif start > source.start:
        first = start + 1  # a comma
    on = code.find(Range(first, end), (TokenType.ON,))
    using = code.find(Range(first, end), (TokenType.USING,))
    last = min(index for index in (on, using, end) if index is not None)
    condition = None if on is None else Range(on + 1, end)
    lateral = code.word(first) == "LATERAL"
    subquery = None
    name = None
    if code.type(first) == TokenType.L_PAREN:
        closing = code.partner[first]
        subquery = Range(first + 1, closing)
        name = _alias(code, Range(closing + 1, last))
    else:
        name = _alias(code, Range(first + 1, last)) or _last_part(code, Range(first, last))
    return ReadRelation(Range(first, last), subquery, name, joined, start, condition, lateral)


def _alias(code: Code, part: Range) -> str | None:
    """Return the alias at the end of a relation; None where there is none or it is not certain."""
    indexes = list(code.outside(part))
    while indexes and code.type(indexes[-1]) == TokenType.L_PAREN:  # the names of its columns
        indexes.pop()
    if indexes and code.type(indexes[-1]) in _WRITTEN_AS_NAMES and code.type(indexes[-1] - 1) != TokenType.DOT:
        return code.tokens[indexes[-1]].text
    return None


def _last_part(code: Code, part: Range) -> str | None:
    indexes = list(code.outside(part))
    names = [index for index in indexes if code.type(index) in _WRITTEN_AS_NAMES]
    only_names = all(code.type(index) == TokenType.DOT or index in names for index in indexes)
    return code.tokens[names[-1]].text if names and only_names else None
