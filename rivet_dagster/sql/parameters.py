"""The named parameters in users' SQL."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType
from sqlglot.tokens import Token

from rivet_dagster.sql.dialect import tokenize

_ENDS_A_VALUE = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}


def parameters(sql: str) -> dict[str, int]:
    """Return each ``:name`` of ``sql`` with the line, counted from 1, of its first use. Raise SqlError.

    A ``:name`` that directly follows a value is a path into the value, and no parameter.

    >>> parameters("SELECT v:name, ':no' -- :neither\\nFROM t WHERE day >= :partition_start")
    {'partition_start': 2}
    """
    lines: dict[str, int] = {}
    tokens = tokenize(sql)
    for before, (colon, word) in zip([None, *tokens], pairwise(tokens), strict=False):
        if _is_marker(before, colon, word):
            lines.setdefault(word.text, word.line)
    return lines


def _is_marker(before: Token | None, colon: Token, word: Token) -> bool:
    if colon.token_type != TokenType.COLON or word.start != colon.end + 1 or not word.text.isidentifier():
        return False
    return before is None or before.token_type not in _ENDS_A_VALUE or before.end + 1 != colon.start
