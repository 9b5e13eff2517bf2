"""Where quotes and comments begin and end in a text, by the rules of Spark's own lexer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rivet_dagster.sql.error import SqlError

# The alternatives of SqlBaseLexer.g4 that decide where a quote or a comment begins; the longest one counts there, which
# is why a hint's end stands before the comment in `*/*`, and numbers and URIs before words.
_PIECE = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])*+ | /\*(?!\+) )
  | (?P<quoted>
        '(?:[^'\\]|\\.|'')*+'  |  "(?:[^"\\]|\\.|"")*+"
      | [rR]'[^']*+'  |  [rR]"[^"]*+"
      | `(?:[^`]|``)*+` )
  | (?P<unfinished> ['"`] )
  | (?P<mark> /\*\+ | \*/ | [()\[\]{};] )
  | (?: [0-9]+\.?[0-9]* | \.[0-9]+ ) [eE][+-][0-9]+ (?:[fFdD]|[bB][dD])?
  | [^\W\d_]++://[\w/.?=&\#%-]+
  | [^\W]++
  | \s+
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_COMMENT = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True)
class Piece:
    """A ``comment``, something ``quoted`` (a text or a name), or a ``mark``: a bracket, a part of a hint or ``;``."""

    kind: str
    text: str
    start: int
    end: int


def pieces(sql: str) -> Iterator[Piece]:
    """The comments, quotes and marks of ``sql`` in order. Raises SqlError for what begins and never ends.

    >>> [(piece.kind, piece.text) for piece in pieces("f('it''s (') -- )")]
    [('mark', '('), ('quoted', "'it''s ('"), ('mark', ')'), ('comment', '-- )')]
    """
    position = 0
    while position < len(sql):
        match = _PIECE.match(sql, position)
        assert match is not None
        kind, end = match.lastgroup, match.end()
        if kind == "unfinished":
            raise SqlError(f"holds a text in quotes ({match[0]}) that is not closed", line_of(sql, position))
        if kind == "comment" and match[0] == "/*":
            end = _end_of_comment(sql, position)
        if kind is not None:
            yield Piece(kind, sql[position:end], position, end)
        position = end


def without_comments(sql: str) -> str:
    r"""The text with blanks in place of its comments; line breaks stay. Raises SqlError as ``pieces`` does.

    >>> without_comments("SELECT 1 -- one\n/* two */ + 2")
    'SELECT 1       \n          + 2'
    """
    parts, end = [], 0
    for piece in pieces(sql):
        if piece.kind == "comment":
            parts += [sql[end : piece.start], re.sub(r"[^\r\n]", " ", piece.text)]
            end = piece.end
    return "".join([*parts, sql[end:]])


def line_of(sql: str, position: int) -> int:
    """The line of a position, counted from 1."""
    return sql.count("\n", 0, position) + 1


def _end_of_comment(sql: str, start: int) -> int:
    depth, position = 1, start + 2
    while depth:
        match = _IN_COMMENT.search(sql, position)
        if match is None:
            raise SqlError("holds a comment that is not closed", line_of(sql, start))
        depth += 1 if match[0] == "/*" else -1
        position = match.end()
    return position
