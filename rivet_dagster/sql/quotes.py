"""Whether something that must be a value has become a part of a text."""

from __future__ import annotations

from rivet_dagster.sql.dialect import SqlError, tokenize


def line_in_quotes(sql: str, marker: str) -> int | None:
    """The line of the first text or name in quotes that holds the parameter ``marker``; None where none does.

    >>> line_in_quotes("SELECT *\\nFROM t WHERE at > ':since'", ":since"), line_in_quotes("SELECT :since", ":since")
    (2, None)
    """
    try:
        # Outside of quotes the colon is a token of its own.
        return next((token.line for token in tokenize(sql) if marker in token.text), None)
    except SqlError:
        return None
