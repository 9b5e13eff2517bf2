"""A check that sqlglot and Spark agree on the quoted parts of a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from sqlglot import TokenType
from sqlglot.tokens import Token

from rivet_dagster.sql.lexer import pieces


def same_quotes(sql: str, tokens: Sequence[Token]) -> bool:
    """Return whether each of ``tokens``, sqlglot's for ``sql``, is quoted if and only if it is for Spark's lexer.

    Otherwise conclusions drawn from sqlglot's tree would miss parts that Spark reads as code, or as quoted text.
    """
    for piece in pieces(sql):
        if piece.kind != "quoted":
            continue
        # Each quote outside of comments is in such a piece, so a token that is quoted touches one.
        position = bisect_left(tokens, piece.start, key=_END)
        while position < len(tokens) and tokens[position].start < piece.end:
            token = tokens[position]
            prefix = int(sql[token.start] in "xXnN")  # a token of its own in Spark
            agreed = sql[token.end] in _QUOTES and piece.start <= token.start + prefix and token.end < piece.end
            if not agreed and token.token_type != TokenType.HINT:  # one token in sqlglot, whatever it holds
                return False
            position += 1
    return True


_END = attrgetter("end")
_QUOTES = "'\"`"
