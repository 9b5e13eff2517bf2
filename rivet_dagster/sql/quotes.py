"""Detection of parameters that a user has put within quotes."""

from __future__ import annotations

from rivet_dagster.sql.dialect import SqlError, tokenize


def line_in_quotes(sql: str, marker: str) -> int | None:
    """Return the line of the first quoted string or name that contains the parameter ``marker``; None without any.

    >>> line_in_quotes("SELECT *\\nFROM t WHERE at > ':since'", ":since"), line_in_quotes("SELECT :since", ":since")
    (2, None)
    """
    try:
        # Outside of quotes the colon is a separate token.
        return next((token.line for token in tokenize(sql) if marker in token.text), None)
    except SqlError:
        return None
