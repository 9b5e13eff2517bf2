"""A text that changes exactly when a query's logic does."""

from __future__ import annotations

from sqlglot import TokenType

from rivet_dagster.sql.dialect import Query

_VERBATIM = {TokenType.STRING, TokenType.IDENTIFIER}


def fingerprint(query: Query) -> str:
    """The query's tokens without comments and white space; words but for literals and quoted names in lower case.

    >>> from rivet_dagster.sql.dialect import read_query
    >>> fingerprint(read_query("select A  from t -- note")) == fingerprint(read_query("SELECT a FROM T"))
    True
    """
    words = []
    for token in query.tokens:
        text = token.text if token.token_type in _VERBATIM else token.text.lower()
        words.append(f"{token.token_type.name}:{text}" if token.token_type in _VERBATIM else text)
    hints = [token.text.lower() for token in query.tokens if token.token_type == TokenType.HINT]
    return "\x00".join([*words, *hints])
