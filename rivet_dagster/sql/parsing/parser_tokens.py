"""Tokens as sqlglot's parser is to read them: so that it reads what Spark does, once.

Where sqlglot cannot tell which of two readings is right, it tries one and, if that fails, reads the same tokens again.
One in another takes twice the time of the inner one: sixteen joins without criteria half a second, twenty-six ten
minutes. Spark's grammar tells the readings apart, and here the tokens are made such that the parser can, too.
"""

from __future__ import annotations

from sqlglot import Dialect, TokenType
from sqlglot.tokens import Token

from rivet_dagster.model.plugins import SPARK

_PARSER = Dialect.get_or_raise(SPARK).parser_class

_CALLED_TYPES = _PARSER.TYPE_TOKENS - {TokenType.INTERVAL, TokenType.NULL, TokenType.UNION, TokenType.VECTOR}
"""Names of types of which sqlglot reads the same call if they are no keywords."""

_BEFORE_NAMES = frozenset(
    {TokenType.ALIAS, TokenType.COLON, TokenType.COMMA, TokenType.DOT, TokenType.L_PAREN, TokenType.LT}
)
_WORDS_OF_JOINS = _PARSER.JOIN_METHODS | _PARSER.JOIN_SIDES | _PARSER.JOIN_KINDS
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})


def prepare_tokens(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens of ``text`` as its parser is to read them; their positions in the text stay."""
    upper = text.upper()
    if "TABLE" in upper:
        tokens = _tables_as_selects(tokens)
    if "(" in upper:
        tokens = _calls_of_types_as_functions(tokens)
    return name_cross_joins(tokens) if upper.count("JOIN") > 1 else tokens


def name_cross_joins(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each join that has no criteria, and that others follow, written as a cross join.

    sqlglot looks for its criteria behind those that follow (``a JOIN b JOIN c ON ... ON ...``), except if its kind is a
    token of the type CROSS. The text of that token, which the tree holds, is the kind as written, else INNER or OUTER.
    """
    if not (marked := _joins_without_criteria(tokens)):
        return tokens
    changed: list[Token] = []
    for position, token in enumerate(tokens):
        if position in marked:
            before = changed[-1]
            if before.token_type in _PARSER.JOIN_KINDS:
                changed[-1] = _like(before, TokenType.CROSS, before.text)
            else:
                kind = "OUTER" if before.token_type in _PARSER.JOIN_SIDES else "INNER"
                changed.append(_like(token, TokenType.CROSS, kind))
        changed.append(token)
    return changed


def _joins_without_criteria(tokens: list[Token]) -> set[int]:
    """Return the positions of JOINs that another one follows within the same parentheses, and no criteria are left for.

    Criteria belong to the last join without any; those of CROSS and NATURAL joins can only follow at once.
    """
    marked: set[int] = set()
    open_joins: list[list[int]] = [[]]  # of each level of parentheses, -1 for one that needs no criteria
    last = [-1]
    for position, token in enumerate(tokens):
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            open_joins.append([])
            last.append(-1)
        elif kind == TokenType.R_PAREN and len(last) > 1:
            marked.update({*open_joins.pop()} - {last.pop()})
        elif kind == TokenType.JOIN and position and tokens[position - 1].token_type not in _BEFORE_NAMES:
            joins = open_joins[-1]
            if joins and joins[-1] == -1:
                joins.pop()
            joins.append(position if _can_lack_criteria(tokens, position) else -1)
            last[-1] = position
        elif kind in (TokenType.ON, TokenType.USING) and open_joins[-1]:
            open_joins[-1].pop()
    for joins, end in zip(open_joins, last, strict=True):
        marked.update({*joins} - {end})
    return marked - {-1}


def _can_lack_criteria(tokens: list[Token], position: int) -> bool:
    """Return False for a CROSS or NATURAL join, after which sqlglot expects only criteria of its own."""
    while position and (kind := tokens[position - 1].token_type) in _WORDS_OF_JOINS:
        if kind == TokenType.CROSS or kind in _PARSER.JOIN_METHODS:
            return False
        position -= 1
    return True


def _calls_of_types_as_functions(tokens: list[Token]) -> list[Token]:
    """Replace ``date`` of ``date(x)`` by a plain name: sqlglot first parses the arguments as those of a type.

    In Spark a type in parentheses has nothing but numbers, as in ``DECIMAL(10, 2)``.
    """
    changed = tokens
    for position, token in enumerate(tokens[1:]):
        if token.token_type == TokenType.L_PAREN and tokens[position].token_type in _CALLED_TYPES:
            kinds = [each.token_type for each in tokens[position + 2 : position + 6]]
            if kinds[:2] != _LENGTH and kinds != _PRECISION_AND_SCALE:
                changed = tokens.copy() if changed is tokens else changed
                changed[position] = _like(tokens[position], TokenType.VAR, tokens[position].text)
    return changed


_LENGTH = [TokenType.NUMBER, TokenType.R_PAREN]
_PRECISION_AND_SCALE = [TokenType.NUMBER, TokenType.COMMA, *_LENGTH]


def _tables_as_selects(tokens: list[Token]) -> list[Token]:
    """Replace each ``TABLE name`` by ``SELECT * FROM name``: sqlglot parses it as a table called TABLE."""
    replaced: list[Token] = []
    words = ["", "(", *[t.text.upper() for t in tokens]]
    for position, token in enumerate(tokens):
        if token.token_type == TokenType.TABLE and _is_query_of_a_table(
            words[position : position + 2], tokens, position
        ):
            spelled_out = {TokenType.SELECT: "SELECT", TokenType.STAR: "*", TokenType.FROM: "FROM"}
            replaced += [_like(token, kind, text) for kind, text in spelled_out.items()]
        else:
            replaced.append(token)
    return replaced


def _is_query_of_a_table(before: list[str], tokens: list[Token], position: int) -> bool:
    """Return whether the word TABLE begins a query, given the two words ``before`` it, and a name follows it."""
    begins = before[1] in {"(", *_SET_OPERATIONS} or (before[1] in ("ALL", "DISTINCT") and before[0] in _SET_OPERATIONS)
    if not begins or position + 1 == len(tokens):
        return False
    after = tokens[position + 1]
    return after.token_type == TokenType.IDENTIFIER or after.text.isidentifier()


def _like(token: Token, kind: TokenType, text: str) -> Token:
    """Return a token at the same position."""
    return Token(kind, text, token.line, token.col, token.start, token.end)
