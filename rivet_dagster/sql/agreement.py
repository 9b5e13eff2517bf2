"""A check that sqlglot and Spark agree on the quoted parts of a text."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import TokenType
from sqlglot.tokens import Token

from rivet_dagster.sql.lexer import pieces


def same_quotes(code: str, tokens: Iterable[Token]) -> bool:
    """Return whether each of ``tokens``, sqlglot's for ``code``, is quoted if and only if it is for Spark's lexer.

    Otherwise conclusions drawn from sqlglot's tree would miss parts that Spark reads as code, or as quoted text.
    """
    if not any(quote in code for quote in _QUOTES):
        return True
    quotes = (piece for piece in pieces(code) if piece.kind == "quoted")
    following = next(quotes, None)
    before = until = 0
    for token in tokens:
        start, end = token.start, token.end
        while following is not None and following.start <= end:
            before, until, following = following.start, following.end, next(quotes, None)
        if code[end] in _QUOTES:
            prefix = int(code[start] in "xXnN")  # a token of its own in Spark
            agreed = before <= start + prefix and end < until
        else:
            agreed = until <= start
        if not agreed and token.token_type != TokenType.HINT:  # one token in sqlglot, whatever it holds
            return False
    return True


_QUOTES = "'\"`"
