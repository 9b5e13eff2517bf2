"""Whether sqlglot takes the same parts of a text for quotes as Spark does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from sqlglot import TokenType
from sqlglot.tokens import Token

from rivet_dagster.sql.lexer import pieces


def same_quotes(code: str, tokens: Iterable[Token]) -> bool:
    """Return whether each of ``tokens``, those of sqlglot for ``code``, is in quotes exactly where Spark's lexer is.

    What only Spark's lexer takes for code, or for a text, would be missing in what is said of the query.
    """
    quotes = [(piece.start, piece.end) for piece in pieces(code) if piece.kind == "quoted"]
    starts = [start for start, _ in quotes]
    for token in tokens:
        if token.token_type == TokenType.HINT:  # one token in sqlglot, whatever it holds
            continue
        quoted = code[token.end] in "'\"`"
        prefix = int(quoted and code[token.start] in "xXnN")  # a word of its own in Spark
        place = bisect_right(starts, token.end) - 1
        before, until = quotes[place] if place >= 0 else (0, 0)
        inside = before <= token.start + prefix and token.end < until
        apart = until <= token.start
        if not (inside if quoted else apart):
            return False
    return True
