"""A fingerprint of a query, which changes if and only if its logic does."""

from __future__ import annotations

import hashlib

from sqlglot import TokenType

from rivet_dagster.sql.dialect import Query


def fingerprint(query: Query) -> str:
    """Return a hash of the tokens without comments and white space, in lower case except literals and quoted names.

    >>> from rivet_dagster.sql.dialect import read_query
    >>> fingerprint(read_query("select A  from t -- note")) == fingerprint(read_query("SELECT a FROM T"))
    True
    """
    words, hints = query.words, []
    if "`" in query.text:
        words = [
            f"IDENTIFIER:{token.text}" if token.token_type == TokenType.IDENTIFIER else word
            for word, token in zip(words, query.tokens, strict=True)
        ]
    if "/*+" in query.text:
        hints = [token.text.lower() for token in query.tokens if token.token_type == TokenType.HINT]
    return hashlib.sha256("\x00".join([*words, *hints]).encode("utf-8", "surrogatepass")).hexdigest()
