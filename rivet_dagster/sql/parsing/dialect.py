"""The only access to sqlglot, with its Databricks dialect, which reads all of Spark's SQL that sqlglot supports."""

from __future__ import annotations

import logging
import re
import threading
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from types import TracebackType
from typing import overload

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError as SqlError
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.embedding import in_parentheses, refuse_unbalanced, the_statement
from rivet_dagster.sql.parsing.lexer import pieces, without_comments
from rivet_dagster.sql.parsing.nodes import nodes_of
from rivet_dagster.sql.parsing.parser_tokens import prepare_tokens

_DIALECT = Dialect.get_or_raise(SPARK)


class _OfThread(threading.local):
    """The tokenizer and the parser of a thread: they have a state while they read, and are costly to make."""

    def __init__(self) -> None:
        self.tokenizer = _DIALECT.tokenizer()
        self.parser = _DIALECT.parser()


_OF_THREAD = _OfThread()

ITEM_PREFIX = "SELECT "
"""What ``parse_item`` puts before an item."""


@dataclass(frozen=True)
class Query:
    """A query: the user's ``text`` without a closing ``;``, its tokens, and its tree if sqlglot can parse it."""

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Expr | None
    unreadable: UnreadableSql | None = None

    @cached_property
    def words(self) -> list[str]:
        """The tokens in lower case, except that string literals are unchanged after ``STRING:``."""
        return [
            f"STRING:{token.text}" if token.token_type is TokenType.STRING else token.text.lower()
            for token in self.tokens
        ]

    @cached_property
    def nodes(self) -> list[exp.Expr]:
        """The nodes of the tree, a node before its children, except literals, types and names."""
        return [] if self.tree is None else nodes_of(self.tree)

    @cached_property
    def kinds(self) -> frozenset[type[exp.Expr]]:
        """The classes of ``nodes``."""
        return frozenset(map(type, self.nodes))


class _Guard(AbstractContextManager[None]):
    """See ``translate_parser_errors``."""

    def __enter__(self) -> None:
        # What sqlglot parses as a mere command it also logs; for us that is an error that we report ourselves.
        self._was_disabled, _LOGGER.disabled = _LOGGER.disabled, True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _LOGGER.disabled = self._was_disabled
        if isinstance(error, Exception) and not isinstance(error, SqlError):
            raise _why(error) from error


_LOGGER = logging.getLogger("sqlglot")


def translate_parser_errors() -> AbstractContextManager[None]:
    """Turn any exception raised by sqlglot, or by reading one of its trees, into an UnreadableSql.

    For texts that it does not expect, sqlglot raises not only its own errors but also IndexError, ValueError,
    AttributeError... Every call of it with a user's text is made within this context manager.

    >>> with translate_parser_errors():
    ...     _DIALECT.parse("SELECT map('a', 1, 'b')")
    Traceback (most recent call last):
    rivet_dagster.sql.error.UnreadableSql: could not be read (IndexError: list index out of range)
    """
    return _Guard()


def tokenize(sql: str) -> list[Token]:
    """Return the tokens of ``sql`` without its comments. Raise SqlError.

    Comments are determined by Spark's rules: for sqlglot a comment ends with its line even after a backslash, and a
    comment between GROUP and BY, which are one token, splits them.
    """
    code = without_comments(sql)
    with translate_parser_errors():
        return _OF_THREAD.tokenizer.tokenize(code)


def read_query(sql: str) -> Query:
    """Parse one query.

    Raise SqlError for no query, several statements, a statement that is no query, a template, and text whose brackets,
    quotes or comments are not closed.

    A query that sqlglot cannot parse is returned without a tree, as Spark may be able to read it.

    >>> read_query("SELECT 1; -- done").text
    'SELECT 1'
    """
    text = the_statement(sql)
    refuse_unbalanced(text)
    tokens = tokenize(text)
    template = _template(tokens) if "{{" in text or "{%" in text else None
    if template is not None:
        raise SqlError("uses a template ({{ }}, {% %}), which only the SQL of a joint can", template.line)
    try:
        tree = _parse(tokens, text)
    except UnreadableSql as error:
        return Query(text, tuple(tokens), None, error)
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError("is not a query (SELECT, FROM, VALUES or TABLE)", tokens[0].line)
    try:
        return Query(text, tuple(tokens), _with_names(tree, tokens, text))
    except UnreadableSql as error:
        return Query(text, tuple(tokens), None, error)


def quote_name(name: str) -> str:
    """Return ``name`` as an identifier, in backquotes where it is a keyword of SQL or not a plain name.

    >>> quote_name("orders"), quote_name("select"), quote_name("Net total")
    ('orders', '`select`', '`Net total`')
    """
    plain = name.isidentifier() and name.upper() not in _DIALECT.tokenizer_class.KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def parse_expression(sql: str) -> exp.Expr:
    """Parse one scalar expression, as in a WHERE. Raise SqlError, or UnreadableSql if its brackets are balanced."""
    refuse_unbalanced(sql)
    select = f"SELECT 1 WHERE {in_parentheses(sql)}"
    tokens = tokenize(select)
    if not same_quotes(select, tokens):
        raise UnreadableSql(_OTHER_QUOTES)
    try:
        tree = _parse(tokens, select)
    except UnreadableSql as error:
        if isinstance(error.__cause__, ParseError):
            raise UnreadableSql("is not one expression") from error
        raise
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    expression = where.this.this if where is not None and isinstance(where.this, exp.Paren) else None
    if not isinstance(expression, exp.Expr) or isinstance(expression, exp.Alias | exp.Star):
        raise UnreadableSql("is not one expression")
    return expression


@overload
def parse_item(sql: str) -> exp.Expr: ...
@overload
def parse_item(sql: str, *, required: bool) -> exp.Expr | None: ...
def parse_item(sql: str, *, required: bool = True) -> exp.Expr | None:
    """Parse one item of a SELECT list; positions in the tree count from a ``SELECT `` before it.

    Return None, or raise UnreadableSql if it is ``required``, where the text is not one item.
    """
    text = f"{ITEM_PREFIX}{sql}"
    try:
        with translate_parser_errors():
            tree = _OF_THREAD.parser.parse(prepare_tokens(_OF_THREAD.tokenizer.tokenize(text), text), text)
    except UnreadableSql:
        if required:
            raise
        return None
    select = tree[0]
    if isinstance(select, exp.Select) and {key for key, value in select.args.items() if value} == {"expressions"}:
        items: list[exp.Expr] = select.expressions
        if len(items) == 1:
            return items[0]
    if required:
        raise UnreadableSql("is not one expression")
    return None


_OTHER_QUOTES = "holds quotes that Spark does not read as the parser here does"


def _parse(tokens: list[Token], text: str) -> exp.Expr | None:
    with translate_parser_errors():
        return _OF_THREAD.parser.parse(prepare_tokens(tokens, text), text)[0]


def _with_names(tree: exp.Expr, tokens: list[Token], text: str) -> exp.Expr:
    """Replace IDENTIFIER clauses by the names in them. Raise UnreadableSql if Spark reads the query differently."""
    if not same_quotes(text, tokens):
        raise UnreadableSql(_OTHER_QUOTES)
    if "IDENTIFIER" not in text.upper():
        return tree
    clause = named_at_run_time(tokens)
    if clause is not None:
        raise UnreadableSql("reads what IDENTIFIER names at run time", clause.line)
    with translate_parser_errors():
        return with_names(tree, _DIALECT)


def _template(tokens: list[Token]) -> Token | None:
    marks = {(TokenType.L_BRACE, TokenType.L_BRACE), (TokenType.L_BRACE, TokenType.MOD)}
    for left, right in pairwise(tokens):
        if (left.token_type, right.token_type) in marks and right.start == left.end + 1:
            return left
    return None


def _why(error: Exception) -> UnreadableSql:
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        near = f"{first.get('start_context') or ''}{first.get('highlight') or ''}".split("\n")[-1][-40:].strip()
        expected = re.match(r"Expecting [^\s<]+", str(first.get("description")))
        return UnreadableSql(
            f"could not be read near '{near}'{f': {expected[0]}' if expected else ''}", first.get("line")
        )
    if isinstance(error, RecursionError):
        return UnreadableSql("is nested too deeply to be read")
    words = (str(error).splitlines() or [""])[0]
    return UnreadableSql(f"could not be read ({type(error).__name__}{f': {words}' if words else ''})")


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


def named_at_run_time(tokens: Sequence[Token]) -> Token | None:
    """Return the first IDENTIFIER clause that has no plain literal or names a function; None where there is none."""
    for position, token in enumerate(tokens):
        if token.text.upper() != "IDENTIFIER" or token.token_type == TokenType.IDENTIFIER:
            continue
        kinds = [t.token_type for t in tokens[position + 1 : position + 5]]
        is_text = kinds[1:3] == [TokenType.STRING, TokenType.R_PAREN] and TokenType.L_PAREN not in kinds[3:]
        if kinds[:1] == [TokenType.L_PAREN] and not is_text:
            return token
    return None


def with_names(tree: exp.Expr, dialect: exp.DialectType) -> exp.Expr:
    """Return the tree with each IDENTIFIER clause of a literal replaced by the table or column that it names.

    >>> from sqlglot import parse_one
    >>> with_names(parse_one("SELECT IDENTIFIER('t.x') FROM IDENTIFIER('s.t') AS t"), "databricks").sql()
    'SELECT t.x FROM s.t AS t'
    """
    return tree.transform(_named, dialect, copy=False)


def _named(node: exp.Expr, dialect: exp.DialectType) -> exp.Expr:
    if isinstance(node, exp.Table) and _is_clause(node.this):
        table = exp.to_table(node.this.expressions[0].name, dialect=dialect)
        for slot in ("this", "db", "catalog"):
            node.set(slot, table.args.get(slot))
        return node
    if _is_clause(node):
        return exp.to_column(node.expressions[0].name, dialect=dialect)
    return node


def _is_clause(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "IDENTIFIER"
