"""Comparison of PostgreSQL's SQL with Spark's: which parts of a query the two would not read, or compute, alike.

Nothing is translated. A query is alike where each of its parts is known to give the same rows in both; all others are
differences, also those of which nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import Dialect, TokenType, exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import read_query, translate_parser_errors
from rivet_dagster.sql.postgres.parts import find_difference, first_line, is_unknown, show, unnamed_columns

_POSTGRES, _SPARK = Dialect.get_or_raise("postgres"), Dialect.get_or_raise(SPARK)

DIGITS = "`/`, avg and round: the last digits of a result may be others than PostgreSQL's"
TRUNCATED = "date_trunc gives a TIMESTAMP, also of a date, and truncates in the time zone of the Spark session"


@dataclass(frozen=True)
class DialectDifference:
    """A part of a query that is not the same in both; ``line`` counts from 1, None where it is not known."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class ComparedQuery:
    """The differences of a query, each in words, and ``notes`` on what is the same but for details."""

    differences: tuple[DialectDifference, ...] = ()
    notes: tuple[str, ...] = ()


def compare_with_spark(sql: str) -> ComparedQuery:
    """Return what of a query in PostgreSQL's SQL is different in Spark's.

    >>> compare_with_spark("select id, count(*) as n from orders where paid group by id")
    ComparedQuery(differences=(), notes=())
    >>> query = "select id::text as id,\\n  paid / 2 as half from orders"
    >>> for found in compare_with_spark(query).differences: print(found)
    DialectDifference(message="the type `text`: Spark's is `string`", line=1)
    DialectDifference(message='`paid / 2`: of integers it is an integer in PostgreSQL, and none in Spark', line=2)
    """
    try:
        with translate_parser_errors():
            return _compare(sql, _read(sql))
    except SqlError as error:
        return ComparedQuery((DialectDifference(f"PostgreSQL's SQL: it {error}", error.line),))


def _compare(sql: str, tree: exp.Expr) -> ComparedQuery:
    differences = [*_written_types(sql)]
    notes: dict[str, None] = {}
    for node in tree.walk(prune=is_unknown):
        message = find_difference(node)
        if message is not None:
            differences.append(DialectDifference(message, first_line(node)))
        elif isinstance(node, exp.Div | exp.Avg | exp.Round):
            notes[DIGITS] = None
        elif isinstance(node, exp.TimestampTrunc):
            notes[TRUNCATED] = None
        for item in unnamed_columns(node):
            message = f"the column `{show(item)}` needs a name (`as ...`): by itself it has another one in Spark"
            differences.append(DialectDifference(message, first_line(item)))
    try:
        ours = _read_by_spark(sql)
    except SqlError as error:
        differences = differences or [DialectDifference(f"Spark's SQL: it {error}", error.line)]
    else:
        differences += _ordered_otherwise(tree, ours)
        differences = differences or [*_read_otherwise(tree, ours)]
    ordered = sorted(dict.fromkeys(differences), key=lambda each: (each.line or 0, each.message))
    return ComparedQuery(tuple(ordered), tuple(notes))


def _read(sql: str) -> exp.Expr:
    trees = _POSTGRES.parse(_without_backquotes(sql).rstrip().rstrip(";"))
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise SqlError("is not one query", None)
    return trees[0]


def _without_backquotes(sql: str) -> str:
    """Return a query without the quotes of names that a template has written for Spark."""
    return re.sub(r"`(\w+)`", r"\1", sql)


def _read_by_spark(sql: str) -> exp.Expr:
    query = read_query(sql)
    if query.tree is None:
        raise query.unreadable or SqlError("cannot be read", None)
    return query.tree


def _ordered_otherwise(tree: exp.Expr, ours: exp.Expr) -> Iterator[DialectDifference]:
    """Yield the keys of ORDER BY that do not say where NULLs are: last in PostgreSQL, where Spark has them first."""
    for theirs, other in zip(tree.find_all(exp.Ordered), ours.find_all(exp.Ordered), strict=False):
        select = theirs.parent.parent if isinstance(theirs.parent, exp.Order) else None
        if isinstance(select, exp.Query) and not select.args.get("limit") and not select.args.get("offset"):
            continue  # the rows of a table have no order
        if bool(theirs.args.get("nulls_first")) != bool(other.args.get("nulls_first")):
            end, other_place = ("first", "last") if theirs.args.get("nulls_first") else ("last", "first")
            message = (
                f"ORDER BY {show(theirs.this)}: NULLs are {end} in PostgreSQL, and {other_place} in Spark: "
                f"say NULLS {end.upper()}"
            )
            yield DialectDifference(message, first_line(theirs))


def _read_otherwise(tree: exp.Expr, ours: exp.Expr) -> Iterator[DialectDifference]:
    """Yield a difference where Spark reads the text as something else."""
    written, theirs = (_alike(each).sql(dialect=_SPARK, comments=False) for each in (ours, tree))
    if written.lower() != theirs.lower():
        at = next(
            (n for n, (a, b) in enumerate(zip(written, theirs, strict=False)) if a.lower() != b.lower()), len(written)
        )
        yield DialectDifference(f"Spark reads it as something else, near '{written[max(0, at - 20) : at + 20]}'")


def _alike(tree: exp.Expr) -> exp.Expr:
    """Return a copy of a tree without what the parsers of sqlglot add, and what has been compared already."""
    return tree.transform(_alike_node)


def _alike_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Div):
        node.set("typed", False)
    elif isinstance(node, exp.Join) and not any(node.args.get(key) for key in ("on", "using", "side", "method")):
        node.set("kind", "CROSS")
    elif isinstance(node, exp.Ordered):
        node.set("nulls_first", False)
    elif isinstance(node, exp.Identifier):
        node.set("quoted", False)
    elif isinstance(node, exp.Is) and node.args.get("negate"):
        node.set("negate", None)
        return exp.Not(this=node)
    elif isinstance(node, exp.Concat) and all(isinstance(each, exp.Literal) for each in node.expressions):
        # Spark reads 'it''s' as PostgreSQL does, and sqlglot as two texts; concat() itself is refused before.
        return exp.Literal.string("'".join(each.name for each in node.expressions))
    return node


_WORDS = {
    "text": "string",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float": "double",
    "float4": "real",
    "float8": "double",
    "double precision": "double",
    "bool": "boolean",
}
"""Spark's words for types that PostgreSQL calls otherwise, or which mean another type there."""


def _written_types(sql: str) -> Iterator[DialectDifference]:
    """Yield the types of casts that Spark knows by another word: the tree has one for both."""
    tokens = _POSTGRES.tokenize(_without_backquotes(sql))
    words = [token.text.lower() if token.token_type != TokenType.STRING else "" for token in tokens]
    casts: list[bool] = []
    for before, word, token in zip(["", *words], words, tokens, strict=False):
        if word == "(":
            casts.append(before == "cast")
        elif word == ")" and casts:
            casts.pop()
        elif word in _WORDS and (before == "::" or (before == "as" and casts and casts[-1])):
            yield DialectDifference(f"the type `{word}`: Spark's is `{_WORDS[word]}`", token.line)
