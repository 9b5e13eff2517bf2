"""Forms of queries that the parser does not read, or not as Spark does, written as others: pipes, TABLE and VALUES."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from rivet_dagster.sql.error import UnreadableSql

_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})
_STARTS = frozenset({"FROM", "SELECT", "TABLE", "VALUES"})
_CLOSED = {TokenType.L_PAREN: TokenType.R_PAREN}
Tokens = list[Token]


def plain_queries(tokens: Sequence[Token]) -> Tokens:
    """Return the tokens of the same query without pipes, ``TABLE name``, and VALUES after a WITH.

    >>> from rivet_dagster.sql.parsing.dialect import tokenize
    >>> " ".join(token.text for token in plain_queries(tokenize("FROM t |> WHERE a > 1")))
    'SELECT * FROM ( SELECT * FROM t ) AS t WHERE a > 1'
    """
    parts = _grouped(_with_selects(list(tokens)))
    return _flat(_region(parts))


class _Group(list["_Part"]):
    """What stands between two parentheses, with these."""


_Part = Token | _Group
Parts = list[_Part]


def _grouped(tokens: Tokens) -> Parts:
    stack: list[Parts] = [[]]
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            stack.append(_Group([token]))
        elif token.token_type == TokenType.R_PAREN and len(stack) > 1:
            group = stack.pop()
            group.append(token)
            stack[-1].append(_Group(group))
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise UnreadableSql("holds a ( that is not closed")
    return stack[0]


def _flat(parts: Sequence[_Part]) -> Tokens:
    found: Tokens = []
    for part in parts:
        if isinstance(part, _Group):
            found += _flat(part)
        else:
            found.append(part)
    return found


def _region(parts: Parts) -> Parts:
    """Return what stands in one pair of parentheses, or outside of all, without pipes."""
    inner: Parts = [_Group([p[0], *_region(list(p[1:-1])), p[-1]]) if isinstance(p, _Group) else p for p in parts]
    if not any(isinstance(p, Token) and p.token_type == TokenType.PIPE_GT for p in inner):
        return inner
    start = 0
    if _word(inner[0]) == "WITH":
        start = next((n for n, p in enumerate(inner) if n and _word(p) in _STARTS and _word(inner[n - 1]) != ","), 0)
    steps: list[Parts] = [[]]
    for part in inner[start:]:
        if isinstance(part, Token) and part.token_type == TokenType.PIPE_GT:
            steps.append([])
        else:
            steps[-1].append(part)
    return [*inner[:start], *_Pipe(inner[start]).all(steps)]


class _Pipe:
    """Writes the steps of a pipe as queries within each other."""

    def __init__(self, near: _Part) -> None:
        self._near = _flat([near])[0]

    def all(self, steps: Sequence[Parts]) -> Parts:
        """Return the query of all steps."""
        query, *others = steps
        names = [_word(part) for part in query]
        alias = query[1] if names[:1] == ["FROM"] and len(query) == 2 else None
        if names[:1] == ["FROM"]:
            query = [*self._words("SELECT * "), *query]
        ordered = False
        for step in others:
            query, alias, ordered = self._step(query, alias, ordered, step)
        return query

    def _step(self, query: Parts, alias: _Part | None, ordered: bool, step: Parts) -> tuple[Parts, _Part | None, bool]:
        word, rest = _word(step[0]) if step else "", step[1:]
        if word == "LIMIT":
            if not ordered:
                query = [*self._words("SELECT *"), *self._from(query, alias)]
            return [*query, *step], alias, False
        if word in ("WHERE", "ORDER BY"):
            return [*self._words("SELECT *"), *self._from(query, alias), *step], alias, word == "ORDER BY"
        if word == "AS" and len(rest) == 1:
            return query, rest[0], False
        if word == "SELECT":
            return [*step, *self._from(query, alias)], None, False
        if word == "UNION" and len(step) == 3 and isinstance(step[-1], _Group):
            return [self._group(query), *step], None, False
        if word == "SET":
            return [*self._words("SELECT * REPLACE"), self._replaced(rest), *self._from(query, alias)], alias, False
        if word == "AGGREGATE":
            by = next((n for n, part in enumerate(rest) if _word(part) == "GROUP BY"), None)
            if by is None:
                return [*self._words("SELECT"), *rest, *self._from(query, alias)], None, False
            keys, items = rest[by + 1 :], rest[:by]
            whole = [*self._words("SELECT"), *keys, *self._words(","), *items, *self._from(query, alias)]
            return [*whole, rest[by], *keys], None, False
        raise UnreadableSql(f"pipes |> {word}", self._near.line)

    def _replaced(self, assignments: Parts) -> _Group:
        items: list[Parts] = [[]]
        for part in assignments:
            if _word(part) == ",":
                items.append([])
            else:
                items[-1].append(part)
        made: Parts = []
        for item in items:
            if len(item) < 3 or _word(item[1]) != "=":
                raise UnreadableSql("pipes |> SET", self._near.line)
            made += [*(self._words(",") if made else []), *item[2:], *self._words("AS"), item[0]]
        return self._group(made)

    def _from(self, query: Parts, alias: _Part | None) -> Parts:
        return [*self._words("FROM"), self._group(query), *([*self._words("AS"), alias] if alias is not None else [])]

    def _group(self, parts: Parts) -> _Group:
        return _Group([*self._words("("), *parts, *self._words(")")])

    def _words(self, text: str) -> Parts:
        near = self._near
        return [Token(_KINDS[word], word, near.line, near.col, near.start, near.end) for word in text.split()]


_KINDS = {
    "SELECT": TokenType.SELECT, "*": TokenType.STAR, "FROM": TokenType.FROM, "AS": TokenType.ALIAS,
    "(": TokenType.L_PAREN, ")": TokenType.R_PAREN, ",": TokenType.COMMA, "REPLACE": TokenType.REPLACE,
}  # fmt: skip


def _word(part: _Part) -> str:
    quoted = isinstance(part, _Group) or part.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if quoted or isinstance(part, _Group) else " ".join(part.text.upper().split())


def _with_selects(tokens: Tokens) -> Tokens:
    """Write ``TABLE name``, and VALUES after a WITH, as SELECT * FROM."""
    found: Tokens = []
    before = ("", "(")
    for position, token in enumerate(tokens):
        starts = before[1] in {"(", *_SET_OPERATIONS} or (
            before[1] in ("ALL", "DISTINCT") and before[0] in _SET_OPERATIONS
        )
        word = _word(token)
        is_table = word == "TABLE" and (starts or before[1] in (")", "|>")) and position + 1 < len(tokens)
        if is_table or (word == "VALUES" and before[1] == ")"):
            at = (token.line, token.col, token.start, token.end)
            found += [Token(_KINDS[text], text, *at) for text in ("SELECT", "*", "FROM")]
            if not is_table:
                found.append(token)
        else:
            found.append(token)
        before = (before[1], word)
    return found
