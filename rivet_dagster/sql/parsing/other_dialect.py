"""Queries in another SQL than Spark's, which go to their engine as written: what they read, by sqlglot's dialect."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import Dialect, exp

from rivet_dagster.sql.error import SqlError, UnreadableSql
from rivet_dagster.sql.parsing.dialect import Query, translate_parser_errors
from rivet_dagster.sql.parsing.known_query import KnownQuery, cte_count, reads
from rivet_dagster.sql.parsing.parser_tokens import name_cross_joins

_READ_AS = {"polars": "postgres"}
"""The dialects by which queries are read that sqlglot has no own one for."""

_PIECE = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
      | (?P<dollars>\$(?:[A-Za-z_]\w*)?\$).*?(?P=dollars)
      | (?<![\w$])\$(?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)


def know_other_query(sql: str, dialect: str) -> KnownQuery:
    """Return the facts of a query in another SQL. Raise SqlError for what is no query, or more than one.

    It counts as not deterministic, since nothing is known about the functions of that SQL.

    >>> query = know_other_query("FROM orders SELECT id, list_sum([1, 2]) AS n;", "duckdb")
    >>> query.text, dict(query.reads), query.tree
    ('FROM orders SELECT id, list_sum([1, 2]) AS n', {'orders': 1}, None)
    """
    text = sql.strip().rstrip(";").rstrip()
    digest = hashlib.sha256(f"{dialect}\x00{text}".encode("utf-8", "surrogatepass")).hexdigest()
    known = KnownQuery(text, digest, {}, 1, False, dialect=dialect)
    parser = Dialect.get_or_raise(_READ_AS.get(dialect, dialect))
    try:
        with translate_parser_errors():
            tokens = name_cross_joins(parser.tokenize(text))
            trees = [tree for tree in parser.parser().parse(tokens, text) if tree is not None]
    except UnreadableSql as error:
        return replace(known, unreadable=error)
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise SqlError("is not one query")
    try:
        with translate_parser_errors():
            query = Query(text, (), trees[0])
            return replace(known, reads=dict(reads(query)), ctes=cte_count(query))
    except UnreadableSql as error:
        return replace(known, unreadable=error)


def other_parameters(sql: str) -> dict[str, int]:
    """Return each ``$name`` of a query with the line, counted from 1, of its first use.

    >>> other_parameters("SELECT '$no' -- $neither\\nFROM t WHERE day >= $partition_start")
    {'partition_start': 2}
    """
    lines: dict[str, int] = {}
    for piece in _PIECE.finditer(sql):
        if piece["name"] is not None:
            lines.setdefault(piece["name"], sql.count("\n", 0, piece.start()) + 1)
    return lines


def replace_parameters(sql: str, text_of: Callable[[str], str]) -> str:
    """Return a query with the text of ``text_of`` in place of each of its parameters.

    >>> replace_parameters("SELECT $v AS v, '$v', $$ $v $$ -- $v", lambda name: f"<{name}>")
    "SELECT <v> AS v, '$v', $$ $v $$ -- $v"
    """
    return _PIECE.sub(lambda piece: text_of(piece["name"]) if piece["name"] is not None else piece[0], sql)
