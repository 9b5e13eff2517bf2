"""One way into sqlglot: the Databricks dialect reads all of Spark's SQL that sqlglot knows, and a little more."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import TokenType, exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token

from rivet_dagster.sql.identifier_clause import named_at_run_time, with_names

_DIALECT = Databricks()


class SqlError(ValueError):
    """A query that cannot be read; ``line`` counts from 1 within it, None where it is not known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Query:
    """One query: the author's ``text`` without a closing ``;``, its tokens, and its tree where sqlglot reads it."""

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Expr | None
    unreadable: SqlError | None = None


@contextmanager
def without_log() -> Iterator[None]:
    """What sqlglot takes for a mere command it also puts on its log, for us an error that we tell ourselves."""
    logger = logging.getLogger("sqlglot")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def tokenize(sql: str) -> list[Token]:
    """The tokens of ``sql``; raises SqlError."""
    try:
        return _DIALECT.tokenize(sql)
    except TokenError as error:
        raise _unfinished(sql, error) from error


def read_query(sql: str) -> Query:
    """Read one query. Raises SqlError for no query, several statements, a statement that is no query, a template.

    A query that sqlglot cannot parse is returned without a tree: Spark may still read it.

    >>> read_query("SELECT 1; -- done").text
    'SELECT 1'
    """
    tokens = tokenize(sql)
    end = next((t for t in tokens if t.token_type == TokenType.SEMICOLON), None)
    if end is not None:
        after = tokens[tokens.index(end) :]
        other = next((t for t in after if t.token_type != TokenType.SEMICOLON), None)
        if other is not None:
            raise SqlError("holds more than one statement", other.line)
        tokens = tokens[: tokens.index(end)]
        sql = sql[: end.start]
    if not tokens:
        raise SqlError("holds no query")
    template = _template(tokens)
    if template is not None:
        raise SqlError("uses a template ({{ }}, {% %}), which only the SQL of a joint can", template.line)
    text = sql.rstrip()
    try:
        try:
            tree = _parse(tokens, text)
        except ParseError:
            # A comment within GROUP BY and the like makes two words of what sqlglot reads as one.
            tokens = tokenize(_without_comments(text, tokens))
            tree = _parse(tokens, text)
    except (ParseError, RecursionError, AssertionError) as error:
        return Query(text, tuple(tokens), None, _why(error))
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError("is not a query (SELECT, FROM, VALUES or TABLE)", tokens[0].line)
    clause = named_at_run_time(tokens)
    if clause is not None:
        return Query(text, tuple(tokens), None, SqlError("reads what IDENTIFIER names at run time", clause.line))
    if "identifier" in text.lower():
        tree = with_names(tree, _DIALECT)
    return Query(text, tuple(tokens), tree)


def quoted(name: str) -> str:
    """``name`` as a query may write it: with backquotes where it is one of SQL's own words.

    >>> quoted("orders"), quoted("select"), quoted("Net total")
    ('orders', '`select`', '`Net total`')
    """
    plain = name.isidentifier() and name.upper() not in _DIALECT.tokenizer_class.KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def parse_expression(sql: str) -> exp.Expr:
    """One scalar expression, as in a WHERE; raises SqlError."""
    tokenize(sql)
    try:
        with without_log():
            select: exp.Expr = exp.maybe_parse(f"SELECT 1 WHERE (\n{sql}\n)", dialect=_DIALECT)
    except (ParseError, RecursionError) as error:
        raise SqlError("is not one expression") from error
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    if where is None or not isinstance(where.this, exp.Paren):
        raise SqlError("is not one expression")
    expression: exp.Expr = where.this.this
    return expression


def _parse(tokens: list[Token], text: str) -> exp.Expr | None:
    with without_log():
        return _DIALECT.parser().parse(_tables_as_selects(tokens), text)[0]


def _without_comments(text: str, tokens: list[Token]) -> str:
    """The text with blanks in place of comments: all that no token covers."""
    parts, end = [], 0
    for token in tokens:
        parts += [re.sub(r"\S", " ", text[end : token.start]), text[token.start : token.end + 1]]
        end = token.end + 1
    return "".join(parts)


_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})


def _tables_as_selects(tokens: list[Token]) -> list[Token]:
    """The tokens with each ``TABLE name``, which sqlglot takes for a table called TABLE, as ``SELECT * FROM name``."""
    found: list[Token] = []
    words = ["", "(", *[t.text.upper() for t in tokens]]
    for position, token in enumerate(tokens):
        if token.token_type == TokenType.TABLE and _is_query_of_a_table(
            words[position : position + 2], tokens, position
        ):
            place = (token.line, token.col, token.start, token.end)
            spelled_out = {TokenType.SELECT: "SELECT", TokenType.STAR: "*", TokenType.FROM: "FROM"}
            found += [Token(kind, text, *place) for kind, text in spelled_out.items()]
        else:
            found.append(token)
    return found


def _is_query_of_a_table(before: list[str], tokens: list[Token], position: int) -> bool:
    """Whether the word TABLE stands where a query begins (``before`` it two words), with a name behind it."""
    begins = before[1] in {"(", *_SET_OPERATIONS} or (before[1] in ("ALL", "DISTINCT") and before[0] in _SET_OPERATIONS)
    if not begins or position + 1 == len(tokens):
        return False
    after = tokens[position + 1]
    return after.token_type == TokenType.IDENTIFIER or after.text.isidentifier()


def _template(tokens: list[Token]) -> Token | None:
    marks = {(TokenType.L_BRACE, TokenType.L_BRACE), (TokenType.L_BRACE, TokenType.MOD)}
    for left, right in pairwise(tokens):
        if (left.token_type, right.token_type) in marks and right.start == left.end + 1:
            return left
    return None


def _unfinished(sql: str, error: TokenError) -> SqlError:
    """What begins in ``sql`` and never ends: a text or name in quotes, else a comment."""
    quote = re.fullmatch(r"Missing (.+) from \d+:(\d+)", str(error.__context__))
    place = int(quote[2]) if quote else sql.rfind("/*")
    if place < 0:
        return SqlError("could not be read")
    what = f"text in quotes ({quote[1]})" if quote else "comment"
    return SqlError(f"holds a {what} that is not closed", sql.count("\n", 0, place) + 1)


def _why(error: Exception) -> SqlError:
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        near = f"{first.get('start_context') or ''}{first.get('highlight') or ''}".split("\n")[-1][-40:].strip()
        expected = re.match(r"Expecting [^\s<]+", str(first.get("description")))
        return SqlError(f"could not be read near '{near}'{f': {expected[0]}' if expected else ''}", first.get("line"))
    if isinstance(error, RecursionError):
        return SqlError("is nested too deeply to be read")
    return SqlError((str(error).splitlines() or ["could not be read"])[0])
