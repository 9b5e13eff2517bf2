"""Positions of quotes and comments in SQL text, by the rules of Spark's lexer.

Detection of parameters that a user has put within quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from rivet_dagster.sql.error import SqlError

# The rules of SqlBaseLexer.g4 that decide where a quote or a comment begins. The longest token counts there: a hint's
# end comes before the comment in `*/*`, and a longer word that ends in r begins no raw text. Only runs of one class of
# characters are possessive: Python before 3.11.5 matches possessive groups wrong.
_ENDS = r"""
    (?P<comment> --(?:[^\r\n\\]++|\\\n|\\)* | /\*(?!\+) )
  | (?P<quoted>
        '(?:[^'\\]++|\\.|'')*'(?!')  |  "(?:[^"\\]++|\\.|"")*"(?!")
      | [rR]'[^']*+'  |  [rR]"[^"]*+"
      | `(?:[^`]++|``)*`(?!`) )
  | (?P<mark> /\*\+ | \*/ | [()\[\]{};] )
  | (?P<unfinished> [rR]?['"] | ` )
"""
_WORDS = r"""
        (?: [0-9]++\.?[0-9]*+ | \.[0-9]++ ) [eE][+-][0-9]++ (?:[fFdD]|[bB][dD])?
      | [^\W\d_]++://[\w/.?=&\#%-]++
      | (?![rR]['"]) \w++
      | [^\w'"`()\[\]{};/*-]++
"""
_ANY = r"""[^'"`()\[\]{};/*-]++"""
_PIECE, _PIECE_AMONG_WORDS = [
    re.compile(rf"(?: {between} | -(?!-) | /(?!\*) | \*(?!/) )* (?: {_ENDS} )?", re.VERBOSE | re.DOTALL)
    for between in (_ANY, _WORDS)
]
_AMONG_WORDS = ("://", "r'", "R'", 'r"', 'R"')
"""Marks of URLs and raw texts: in a text with one of them, words decide which pieces begin."""

_IN_COMMENT = re.compile(r"/\*(?!\+)|\*/")


class Piece(NamedTuple):
    """A ``comment``, a ``quoted`` string or name, or a ``mark``: a bracket, the start or end of a hint, or ``;``."""

    kind: str
    text: str
    start: int
    end: int


@lru_cache(maxsize=8)  # the same text is analyzed several times in a row
def pieces(sql: str) -> tuple[Piece, ...]:
    """Return the comments, quotes and marks of ``sql`` in order. Raise SqlError where one is not closed.

    >>> [(piece.kind, piece.text) for piece in pieces("f('it''s (') -- )")]
    [('mark', '('), ('quoted', "'it''s ('"), ('mark', ')'), ('comment', '-- )')]
    """
    pieces: list[Piece] = []
    pattern = _PIECE_AMONG_WORDS if any(mark in sql for mark in _AMONG_WORDS) else _PIECE
    end = 0
    while end < len(sql):
        match = pattern.match(sql, end)
        assert match is not None
        kind = match.lastgroup
        if kind is None:
            break
        start, end = match.span(kind)
        if kind == "unfinished":
            quote = match[kind][-1]
            raise SqlError(f"holds a text in quotes ({quote}) that is not closed", line_of(sql, start))
        if kind == "comment" and match[kind] == "/*":
            end = _end_of_comment(sql, start)
        pieces.append(Piece(kind, sql[start:end], start, end))
    return tuple(pieces)


@lru_cache(maxsize=8)
def without_comments(sql: str) -> str:
    r"""Return the text with comments replaced by blanks, line breaks kept. Raise SqlError as ``pieces`` does.

    >>> without_comments("SELECT 1 -- one\n/* two */ + 2")
    'SELECT 1       \n          + 2'
    """
    parts, end = [], 0
    for comment in [piece for piece in pieces(sql) if piece.kind == "comment"]:
        parts += [sql[end : comment.start], re.sub(r"[^\r\n]", " ", comment.text)]
        end = comment.end
    return "".join([*parts, sql[end:]]) if parts else sql


def line_of(sql: str, position: int) -> int:
    """Return the line of a position, counted from 1."""
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
