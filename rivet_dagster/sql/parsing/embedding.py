"""SQL texts of users that are embedded in a generated query, and must not affect the text around them."""

from __future__ import annotations

import re

from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.lexer import line_of, pieces, without_comments

_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "/*+": "*/"}
_DEEPEST = 1000
"""Far deeper than Spark's own parser accepts."""


def refuse_unbalanced(sql: str) -> None:
    """Raise SqlError if a bracket, quote or comment of ``sql`` is not closed, or if it contains a ``;``.

    Embedded in another query, such a text would take in a part of that query, or add a part to it.

    >>> refuse_unbalanced("id > 100 AND (note <> ')' OR true) -- )")
    >>> refuse_unbalanced("id > 100) AND (id < 0")
    Traceback (most recent call last):
    rivet_dagster.sql.error.SqlError: holds a ) that closes nothing
    """
    opened: list[tuple[str, int]] = []
    for piece in pieces(sql):
        if piece.kind != "mark":
            continue
        if piece.text in _CLOSED_BY:
            opened.append((piece.text, piece.start))
            if len(opened) > _DEEPEST:
                raise SqlError("is nested too deeply to be read", line_of(sql, piece.start))
        elif piece.text == ";":
            raise SqlError("holds a ;, which ends a query", line_of(sql, piece.start))
        elif not opened or _CLOSED_BY[opened.pop()[0]] != piece.text:
            raise SqlError(f"holds a {piece.text} that closes nothing", line_of(sql, piece.start))
    if opened:
        mark, start = opened[-1]
        raise SqlError(f"holds a {mark} that is not closed", line_of(sql, start))


def the_statement(sql: str) -> str:
    """Return the one statement of ``sql``, with comments, without a closing ``;``. Raise SqlError for none or several.

    >>> the_statement("SELECT ';' -- ; one\\n; ;")
    "SELECT ';' -- ; one"
    """
    sql = sql.rstrip()
    code, end = without_comments(sql), len(sql)
    if ";" in sql:
        end = next((piece.start for piece in pieces(sql) if piece.text == ";"), end)
        second = re.search(r"[^\s;]", code[end:])
        if second is not None:
            raise SqlError("holds more than one statement", line_of(sql, end + second.start()))
    if not code[:end].strip():
        raise SqlError("holds no query")
    return sql[:end].rstrip()


def on_lines_of_its_own(sql: str) -> str:
    r"""Return the text between two line breaks, so that a comment at its end does not reach into what follows.

    >>> on_lines_of_its_own("SELECT 1 -- one")
    '\nSELECT 1 -- one\n'
    """
    # In Spark, a comment whose line ends with a backslash continues on the next line.
    return f"\n{sql} \n" if sql.endswith("\\") else f"\n{sql}\n"


def in_parentheses(sql: str) -> str:
    r"""Return the text in parentheses, on lines of its own.

    >>> in_parentheses("SELECT 1 -- one")
    '(\nSELECT 1 -- one\n)'
    """
    return f"({on_lines_of_its_own(sql)})"
