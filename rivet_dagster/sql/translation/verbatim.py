"""SQL as trees in which functions have the names that are written; sqlglot's own trees translate many of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError, UnreadableSql
from rivet_dagster.sql.parsing.dialect import named_at_run_time, read_query, same_quotes, translate_parser_errors
from rivet_dagster.sql.parsing.known_query import spark_functions
from rivet_dagster.sql.parsing.lexer import line_of
from rivet_dagster.sql.parsing.parser_tokens import name_cross_joins
from rivet_dagster.sql.translation.tokens import plain_queries

_PREFIX = "f\0"
_SYNTAX = frozenset(
    "and or not in like ilike rlike regexp between case when any some all div cast try_cast values extract "
    "decimal dec numeric char varchar over using on as select where from with".split()
)
"""Words that are followed by a parenthesis and are not functions, or whose arguments have a syntax of their own."""
_WITH_WORDS = frozenset({"trim", "position", "overlay", "substring", "substr"})
_WORDS = frozenset({"from", "in", "for", "placing", "both", "leading", "trailing"})
_QUERIES = frozenset({"select", "with", "from", "table", "values"})
_ESCAPED = frozenset("'\"\\ntr")


def read_verbatim(sql: str) -> exp.Expr:
    """Return the tree of a query of Spark's SQL, its functions as ``Anonymous``. Raise SqlError where it has none.

    >>> read_verbatim("SELECT nvl(a, 1) FROM t").expressions[0].name
    'nvl'
    """
    query = read_query(sql)
    if query.unreadable is not None and isinstance(query.unreadable.__cause__, RecursionError):
        raise query.unreadable
    if "\\" in query.text:
        _refuse_escapes(query.text, query.tokens)
    if not same_quotes(query.text, query.tokens):
        raise UnreadableSql("holds quotes that Spark does not read as the parser here does")
    if named_at_run_time(query.tokens) is not None:
        raise UnreadableSql("reads what IDENTIFIER names at run time")
    tokens = plain_queries(_with_doubled_quotes(query.tokens, query.text))
    tree = parse_verbatim(tokens, query.text, spark_functions(), SPARK)
    if not isinstance(tree, exp.Query | exp.Values):
        raise UnreadableSql("could not be read as a query")
    return tree


def parse_verbatim(tokens: Sequence[Token], text: str, functions: frozenset[str] | None, dialect: str) -> exp.Expr:
    """Return the tree of ``tokens``; ``functions`` are the names that are functions, None for all that are called."""
    with translate_parser_errors():
        named = name_cross_joins(_marked(tokens, functions))
        tree = Dialect.get_or_raise(dialect).parser().parse(named, text)[0]
        if tree is None:
            raise SqlError("holds no query")
        for node in tree.walk():
            name = node.args.get("this")
            if isinstance(name, str) and name.startswith(_PREFIX):
                node.set("this", name[len(_PREFIX) :])
        return tree


@cache
def parse_template(sql: str, dialect: str) -> exp.Expr:
    """Return the tree of an expression of another dialect, its functions as ``Anonymous``."""
    # Not every dialect has names of types that are not its own, so the placeholder is one that no list has.
    text = f"SELECT {sql}".replace(" AS _t)", " AS VARIANT)")
    tree = parse_verbatim(Dialect.get_or_raise(dialect).tokenizer().tokenize(text), text, None, dialect)
    item: exp.Expr = tree.expressions[0]
    return item


def _marked(tokens: Sequence[Token], functions: frozenset[str] | None) -> list[Token]:
    """Give functions names that sqlglot does not know, so that it leaves them as they are."""
    marked = list(tokens)
    for position, token in enumerate(tokens[:-1]):
        word = token.text.lower()
        if tokens[position + 1].token_type != TokenType.L_PAREN or word in _SYNTAX or not word.isidentifier():
            continue
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if (functions is not None and word not in functions) or _no_call(tokens, position):
            continue
        marked[position] = Token(TokenType.VAR, _PREFIX + word, token.line, token.col, token.start, token.end)
    return marked


def _no_call(tokens: Sequence[Token], position: int) -> bool:
    before = tokens[position - 1].token_type if position else None
    word = tokens[position].text.lower()
    if before in (TokenType.ALIAS, TokenType.DCOLON) or (word == "replace" and before == TokenType.STAR):
        return True
    if word in _WITH_WORDS and _has_words(tokens, position + 1):
        return True
    after = tokens[position + 2].text.lower() if position + 2 < len(tokens) else ""
    return (word == "filter" and after == "where") or (word == "exists" and after in {*_QUERIES, "("})


def _has_words(tokens: Sequence[Token], start: int) -> bool:
    """Return whether arguments have words between them, as in ``trim(BOTH ' ' FROM a)``."""
    depth = 0
    for token in tokens[start:]:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return False
        if depth == 1 and token.text.lower() in _WORDS and token.token_type != TokenType.STRING:
            return True
    return False


def _with_doubled_quotes(tokens: Sequence[Token], text: str) -> list[Token]:
    """Join the two strings that sqlglot makes of ``'it''s'``, which for Spark is one with a quote in it."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else token
        strings = token.token_type == TokenType.STRING == last.token_type
        if strings and last.end + 1 == token.start and text[last.end] == text[token.start]:
            whole = last.text + text[token.start] + token.text
            joined[-1] = Token(TokenType.STRING, whole, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def _refuse_escapes(text: str, tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.token_type != TokenType.STRING:
            continue
        raw = text[token.start : token.end + 1]
        position = raw.find("\\")
        while position >= 0:
            if raw[position + 1 : position + 2] not in _ESCAPED:
                raise UnreadableSql(
                    "holds an escape sequence other than \\n, \\t, \\r and quotes", line_of(text, token.start)
                )
            position = raw.find("\\", position + 2)
