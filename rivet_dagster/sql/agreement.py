"""A check that sqlglot and Spark agree on the quoted parts of a text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from sqlglot import TokenType
from sqlglot.tokens import Token

from rivet_dagster.sql.lexer import pieces


def same_quotes(code: str, tokens: Iterable[Token]) -> bool:
    """Return whether each of ``tokens``, sqlglot's for ``code``, is quoted if and only if it is for Spark's lexer.

    Otherwise conclusions drawn from sqlglot's tree would miss parts that Spark reads as code, or as quoted text.
    """
    quotes = [(piece.start, piece.end) for piece in pieces(code) if piece.kind == "quoted"]
    starts = [start for start, _ in quotes]
    for token in tokens:
        if token.token_type == TokenType.HINT:  # one token in sqlglot, whatever it holds
            continue
        quoted = code[token.end] in "'\"`"
        prefix = int(quoted and code[token.start] in "xXnN")  # a token of its own in Spark
        index = bisect_right(starts, token.end) - 1
        before, until = quotes[index] if index >= 0 else (0, 0)
        inside = before <= token.start + prefix and token.end < until
        apart = until <= token.start
        if not (inside if quoted else apart):
            return False
    return True
