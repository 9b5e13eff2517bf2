"""Comparison of PostgreSQL's SQL with Spark's: which parts of a query the two would not read, or compute, alike.

Nothing is translated. A query is alike where each of its parts is known to give the same rows in both; all others are
differences, also those of which nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import Dialect, TokenType, exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import read_query, translate_parser_errors

_POSTGRES, _SPARK = Dialect.get_or_raise("postgres"), Dialect.get_or_raise(SPARK)

DIGITS = "`/`, avg and round: the last digits of a result may be others than PostgreSQL's"
TRUNCATED = "date_trunc gives a TIMESTAMP, also of a date or of a timestamp without a zone"


@dataclass(frozen=True)
class Difference:
    """A part of a query that is not the same in both; ``line`` counts from 1, None where it is not known."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class ComparedQuery:
    """The differences of a query, each in words, and ``notes`` on what is the same but for details."""

    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


def compare_with_spark(sql: str) -> ComparedQuery:
    """Return what of a query in PostgreSQL's SQL is different in Spark's.

    >>> compare_with_spark("select id, count(*) as n from orders where paid group by id")
    ComparedQuery(differences=(), notes=())
    >>> for found in compare_with_spark("select id::text as id,\\n  paid / 2 as half from orders").differences: print(found)
    Difference(message="the type `text`: Spark's is `string`", line=1)
    Difference(message='`paid / 2`: of integers it is an integer in PostgreSQL, and none in Spark', line=2)
    """
    try:
        tree = _read(sql)
    except SqlError as error:
        return ComparedQuery((Difference(f"PostgreSQL's SQL: it {error}", error.line),))
    found = [*_written_types(sql)]
    notes: dict[str, None] = {}
    for node in tree.walk(prune=_is_unknown):
        message = _difference(node)
        if message is not None:
            found.append(Difference(message, _line(node)))
        elif isinstance(node, exp.Div | exp.Avg | exp.Round):
            notes[DIGITS] = None
        elif isinstance(node, exp.TimestampTrunc):
            notes[TRUNCATED] = None
    try:
        ours = _read_by_spark(sql)
    except SqlError as error:
        found = found or [Difference(f"Spark's SQL: it {error}", error.line)]
    else:
        found += _ordered_otherwise(tree, ours)
        found = found or [*_read_otherwise(tree, ours)]
    ordered = sorted(dict.fromkeys(found), key=lambda each: (each.line or 0, each.message))
    return ComparedQuery(tuple(ordered), tuple(notes))


def _read(sql: str) -> exp.Expr:
    with translate_parser_errors():
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


def _ordered_otherwise(tree: exp.Expr, ours: exp.Expr) -> Iterator[Difference]:
    """Yield the keys of ORDER BY that do not say where NULLs are: last in PostgreSQL, where Spark has them first."""
    for theirs, other in zip(tree.find_all(exp.Ordered), ours.find_all(exp.Ordered), strict=False):
        select = theirs.parent.parent if isinstance(theirs.parent, exp.Order) else None
        if isinstance(select, exp.Query) and not select.args.get("limit") and not select.args.get("offset"):
            continue  # the rows of a table have no order
        if bool(theirs.args.get("nulls_first")) != bool(other.args.get("nulls_first")):
            place, other_place = ("first", "last") if theirs.args.get("nulls_first") else ("last", "first")
            message = (
                f"ORDER BY {_shown(theirs.this)}: NULLs are {place} in PostgreSQL, and {other_place} in Spark: "
                f"say NULLS {place.upper()}"
            )
            yield Difference(message, _line(theirs))


def _read_otherwise(tree: exp.Expr, ours: exp.Expr) -> Iterator[Difference]:
    """Yield a difference where Spark reads the text as something else."""
    with translate_parser_errors():
        own, theirs = (_alike(each).sql(dialect=_SPARK, comments=False) for each in (ours, tree))
    if own.lower() != theirs.lower():
        at = next((n for n, (a, b) in enumerate(zip(own, theirs, strict=False)) if a.lower() != b.lower()), len(own))
        yield Difference(f"Spark reads it as something else, near '{own[max(0, at - 20) : at + 20]}'")


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
    return node


_STRUCTURE = (
    "Select From Join Where Group Having With CTE Subquery Union Intersect Except Table TableAlias Alias Column "
    "Identifier Star Literal Boolean Null Paren Distinct Order Ordered Limit Offset Window WindowSpec Filter Tuple "
    "Values Var DataType DataTypeParam Interval Cast"
)
_OPERATORS = (
    "And Or Not EQ NEQ GT GTE LT LTE Is In Between Exists Like ILike NullSafeEQ NullSafeNEQ Case If Add Sub Mul Mod "
    "Neg Div DPipe"
)
_FUNCTIONS = (
    "Coalesce Nullif Greatest Least Abs Round Floor Ceil Lower Upper Length Trim Replace ConcatWs Count Sum Min Max "
    "Avg LogicalAnd LogicalOr RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue "
    "CurrentDate CurrentTimestamp TimestampTrunc Extract MD5 Substring Left Right"
)
_ALIKE = frozenset(getattr(exp, name) for name in f"{_STRUCTURE} {_OPERATORS} {_FUNCTIONS}".split())
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        "with with_ expressions distinct from from_ joins where group having order limit offset windows".split()
    ),
    exp.Table: frozenset("this db catalog alias joins".split()),
    exp.Join: frozenset("this on using kind side".split()),
    exp.With: frozenset(("expressions",)),
    exp.CTE: frozenset(("this", "alias")),
    exp.Count: frozenset(("this", "expressions", "big_int")),
    exp.Group: frozenset(("expressions",)),
    exp.Like: frozenset(("this", "expression")),
    exp.ILike: frozenset(("this", "expression")),
}
"""The parts that are alike of nodes that can have others: locks, samples, recursion, ..."""

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

_WHOLE = frozenset((exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT))
_FRACTIONS = frozenset((exp.DType.DECIMAL, exp.DType.DOUBLE, exp.DType.FLOAT))
_OTHER_TYPES = _FRACTIONS | {exp.DType.TEXT, exp.DType.DATE, exp.DType.BOOLEAN}
_TIMES = {
    exp.DType.TIMESTAMP: "it has no zone, as `timestamp_ntz` of Spark has none",
    exp.DType.TIMESTAMPTZ: "Spark's is `timestamp`",
}
_UNITS = frozenset("year quarter month week day hour minute second".split())
_FIELDS = frozenset("year quarter month week day hour minute doy".split())


def _written_types(sql: str) -> Iterator[Difference]:
    """Yield the types of casts that Spark knows by another word: the tree has one for both."""
    with translate_parser_errors():
        tokens = _POSTGRES.tokenize(_without_backquotes(sql))
    words = [token.text.lower() if token.token_type != TokenType.STRING else "" for token in tokens]
    casts: list[bool] = []
    for before, word, token in zip(["", *words], words, tokens, strict=False):
        if word == "(":
            casts.append(before == "cast")
        elif word == ")" and casts:
            casts.pop()
        elif word in _WORDS and (before == "::" or (before == "as" and casts and casts[-1])):
            yield Difference(f"the type `{word}`: Spark's is `{_WORDS[word]}`", token.line)


def _is_unknown(node: exp.Expr) -> bool:
    return type(node) not in _ALIKE


def _difference(node: exp.Expr) -> str | None:
    """Return what of a node is different in Spark, its children apart."""
    kind = type(node)
    if kind not in _ALIKE:
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            return f"the function {name.lower()} is not known to give the same in Spark"
        return f"`{_shown(node)}` is not known to mean the same in Spark"
    parts = _PARTS.get(kind)
    if parts is not None:
        others = [key for key, value in node.args.items() if value and key not in parts]
        if others:
            return f"`{_shown(node)}`: {others[0].strip('_')} is not known to mean the same in Spark"
    rule = _RULES.get(kind)
    return rule(node) if rule is not None else None


def _of_select(node: Any) -> str | None:
    if not _names_columns(node):
        return None
    for item in node.expressions:
        if not isinstance(item, exp.Alias | exp.Column | exp.Star):
            return f"the column `{_shown(item)}` needs a name (`as ...`): by itself it has another one in Spark"
    return None


def _names_columns(select: exp.Expr) -> bool:
    """Return whether the names of a query's columns can be seen: by readers, or in an outer query."""
    parent = select.parent
    if isinstance(parent, exp.SetOperation):
        return parent.this is select and _names_columns(parent)
    if isinstance(parent, exp.Subquery):
        return parent.parent is None or isinstance(parent.parent, exp.From | exp.Join | exp.SetOperation)
    return parent is None or isinstance(parent, exp.CTE)


def _of_identifier(node: Any) -> str | None:
    if node.args.get("quoted"):
        return f'the name "{node.name}" in double quotes: in Spark it is a text'
    return None


def _of_literal(node: Any) -> str | None:
    if node.is_string and "\\" in node.name:
        return f"'{node.name[:40]}': a backslash begins an escape in Spark"
    return None


def _of_distinct(node: Any) -> str | None:
    return "DISTINCT ON: Spark has none" if node.args.get("on") else None


def _of_division(node: Any) -> str | None:
    if _is_fraction(node.this) or _is_fraction(node.expression):
        return None
    return f"`{_shown(node)}`: of integers it is an integer in PostgreSQL, and none in Spark"


def _is_fraction(node: Any) -> bool:
    """Return whether a number is known to be no integer type."""
    if isinstance(node, exp.Literal):
        return not node.is_string and not node.name.isdecimal()
    if isinstance(node, exp.Cast):
        return node.to.this in _FRACTIONS
    if isinstance(node, exp.Paren | exp.Neg | exp.Coalesce | exp.Nullif | exp.Sum | exp.Abs):
        return _is_fraction(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _is_fraction(node.this) or _is_fraction(node.expression)
    return isinstance(node, exp.Avg)


def _of_cast(node: Any) -> str | None:
    to = node.to.this
    shown = node.to.sql(dialect=_POSTGRES).lower()
    if to in _WHOLE:
        value = node.this.unnest()
        whole = exp.Round | exp.Floor | exp.Ceil | exp.Count | exp.Extract | exp.Length | exp.Window
        if isinstance(value, whole) or (isinstance(value, exp.Literal) and "." not in value.name):
            return None
        return f"`{_shown(node)}`: PostgreSQL rounds a fraction, Spark cuts it off: round it first"
    if to == exp.DType.DECIMAL and not node.to.expressions:
        return "the type `numeric` without digits: in Spark it is DECIMAL(10, 0)"
    if to in (exp.DType.VARCHAR, exp.DType.CHAR):
        return f"the type `{shown}`: Spark's is `string`, and nothing is cut off"
    return None if to in _OTHER_TYPES else f"the type `{shown}`: {_TIMES.get(to, 'it is not known to be the same')}"


def _of_interval(node: Any) -> str | None:
    unit = node.args.get("unit")
    if isinstance(node.this, exp.Literal) and isinstance(unit, exp.Var) and unit.name.lower().rstrip("s") in _UNITS:
        return None
    return f"`{_shown(node)}`: Spark reads intervals of one number and one unit"


def _of_truncation(node: Any) -> str | None:
    unit = node.args.get("unit")
    name = unit.name.lower() if unit is not None else ""
    return None if name in _UNITS else f"date_trunc by '{name}' is not known to be the same in Spark"


def _of_extract(node: Any) -> str | None:
    name = node.name.lower()
    return None if name in _FIELDS else f"extract of {name} is not the same in Spark, or not there"


def _of_subtraction(node: Any) -> str | None:
    dates = exp.CurrentDate
    sides = (node.this.unnest(), node.expression.unnest())
    if any(
        isinstance(each, dates) or (isinstance(each, exp.Cast) and each.to.this == exp.DType.DATE) for each in sides
    ):
        if not isinstance(node.expression.unnest(), exp.Interval | exp.Literal):
            return f"`{_shown(node)}`: of dates it is a number of days in PostgreSQL, and an interval in Spark"
    return None


def _of_trim(node: Any) -> str | None:
    return "trim of other characters than blanks" if node.expression is not None else None


def _of_part(node: Any) -> str | None:
    numbers = [value for key, value in node.args.items() if key != "this" and value is not None]
    if all(isinstance(each, exp.Literal) and each.name.isdecimal() and int(each.name) > 0 for each in numbers):
        return None
    return f"`{_shown(node)}`: where a text is cut at other places than 1, 2, 3 ..., Spark cuts it elsewhere"


_RULES: dict[type[exp.Expr], Callable[[Any], str | None]] = {
    exp.Select: _of_select,
    exp.Identifier: _of_identifier,
    exp.Literal: _of_literal,
    exp.Distinct: _of_distinct,
    exp.Div: _of_division,
    exp.Cast: _of_cast,
    exp.Interval: _of_interval,
    exp.TimestampTrunc: _of_truncation,
    exp.Extract: _of_extract,
    exp.Sub: _of_subtraction,
    exp.Trim: _of_trim,
    exp.Substring: _of_part,
    exp.Left: _of_part,
    exp.Right: _of_part,
}


def _shown(node: exp.Expr) -> str:
    text = node.sql(dialect=_POSTGRES)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(node: exp.Expr) -> int | None:
    """Return the first line on which a part of a node stands."""
    lines = [each.meta["line"] for each in node.walk() if "line" in each.meta]
    return min(lines, default=None)
