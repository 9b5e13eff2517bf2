"""Trees of expressions in an engine's dialect, made from the templates of its list and from types of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.translation.model import NotProven, TypedExpression
from rivet_dagster.sql.translation.proven import Applied, Support
from rivet_dagster.sql.translation.spark_types import decimal
from rivet_dagster.sql.translation.verbatim import parse_template

MOST_REPEATED = 2_000
"""The most nodes of an argument that a template repeats, since each level of such functions multiplies them."""
ERROR, ERROR_TYPE = "error", "type of the error"
"""The call by which templates of DuckDB fail, and the key of its metadata with the type of the value in its place."""
_AGGREGATE = "over_"
"""The prefix by which a template marks the calls to which FILTER and OVER belong."""
_ALL = "_all"
_LIMIT = "_limit"
"""A number that no value of the result's decimal type exceeds, less one in a hundred for the errors of doubles."""
_FOLD = "fold "
_TYPE = "_T"
_WIDE = "_W"
"""The type of the first argument with so many digits that DuckDB computes with 128 bits."""
_ATOMS = (exp.Column, exp.Literal, exp.Anonymous, exp.Cast, exp.Paren, exp.Null, exp.Boolean, exp.Subquery, exp.Case)


@cache
def _datatype(kind: str, dialect: str) -> exp.DataType:
    if dialect == "duckdb":
        kind = kind.replace("timestamp_ntz", "\0").replace("timestamp", "timestamptz").replace("\0", "timestamp")
    return exp.DataType.build(kind.replace("struct<", "STRUCT<"), dialect=SPARK if dialect != "duckdb" else dialect)


def datatype(kind: str, dialect: str) -> exp.DataType:
    """Return Spark's type ``kind`` as a type of the dialect."""
    if dialect == "duckdb" and kind.startswith("array<"):
        return exp.DataType(this=exp.DType.ARRAY, expressions=[datatype(kind[6:-1], dialect)], nested=True)
    return _datatype(kind, dialect).copy()


def cast(tree: exp.Expr, kind: str, dialect: str) -> exp.Cast:
    """Return a cast to Spark's type ``kind``."""
    return exp.Cast(this=tree, to=datatype(kind, dialect))


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call of a function under exactly this name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def atom(tree: exp.Expr) -> exp.Expr:
    """Return a copy of the expression, in parentheses where operators around it could split it."""
    return tree.copy() if isinstance(tree, _ATOMS) else exp.Paren(this=tree.copy())


_OPERATORS: dict[str, type[exp.Expr]] = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod, "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE,
    ">": exp.GT, ">=": exp.GTE, "<=>": exp.NullSafeEQ, "and": exp.And, "or": exp.Or, "||": exp.DPipe, "div": exp.IntDiv,
    "like": exp.Like, "ilike": exp.ILike, "rlike": exp.RegexpLike, "/": exp.Div, "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr, "^": exp.BitwiseXor,
}  # fmt: skip


def same(name: str, arguments: Sequence[exp.Expr], result: str, dialect: str) -> exp.Expr:
    """Return the construct of Spark's name over ``arguments``, for an engine that has it, too."""
    if name in _OPERATORS:
        one, other = map(atom, arguments)
        if name == "/":
            return exp.Div(this=one, expression=other, typed=False, safe=False)
        return _OPERATORS[name](this=one, expression=other)
    if name == "[]":
        return exp.Bracket(this=atom(arguments[0]), expressions=[arguments[1].copy()])
    if name in ("is_true", "is_false"):
        return exp.Is(this=atom(arguments[0]), expression=exp.Boolean(this=name == "is_true"))
    if name == "not":
        return exp.Not(this=atom(arguments[0]))
    if name == "negative":
        return exp.Neg(this=atom(arguments[0]))
    if name == "is_null":
        return exp.Is(this=atom(arguments[0]), expression=exp.Null())
    if name == "is_not_null":
        return exp.Not(this=exp.Is(this=atom(arguments[0]), expression=exp.Null()))
    if name.startswith("cast-"):
        return cast(arguments[0].copy(), result, dialect)
    if name.startswith("try_cast-"):
        return exp.TryCast(this=arguments[0].copy(), to=datatype(result, dialect), safe=True)
    if name.endswith(" distinct"):
        return call(name.split()[0], exp.Distinct(expressions=[a.copy() for a in arguments]))
    return call(name, *[argument.copy() for argument in arguments])


def render(name: str, applied: Applied, arguments: Sequence[TypedExpression], support: Support) -> exp.Expr:
    """Return a proven construct over ``arguments`` as the engine writes it.

    The calls in it that are aggregates or window functions are those of ``marked_calls``.
    """
    template = applied.template
    if template == "=":
        return same(name, [argument.tree for argument in arguments], applied.result, support.dialect)
    trees = [_literal(applied.literals.get(n), argument.tree) for n, argument in enumerate(arguments)]
    if template.startswith(_FOLD):
        found = trees[0]
        for tree in trees[1:]:
            found = _filled(template[len(_FOLD) :], [found, tree], (), applied.result, support.dialect)
        return found
    return _filled(template, trees, [argument.type for argument in arguments], applied.result, support.dialect)


def _literal(value: str | int | None, tree: exp.Expr) -> exp.Expr:
    if value is None:
        return tree
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)


def _is_placeholder(node: exp.DataType, name: str) -> bool:
    named = str(node.args.get("kind") or "").upper() == name
    return named or (name == _TYPE and node.this == exp.DType.VARIANT)


def _wide(kinds: Sequence[str | None]) -> str:
    precision, scale = decimal(kinds[0]) or (38, 0)
    both_short = all((decimal(kind) or (38, 0))[0] <= 18 for kind in kinds)
    return f"decimal({max(19, precision) if both_short else precision},{scale})"


def _filled(
    template: str, trees: Sequence[exp.Expr], kinds: Sequence[str | None], result: str, dialect: str
) -> exp.Expr:
    made = exp.Paren(this=parse_template(template, dialect).copy())
    places = Counter(node.name for node in made.find_all(exp.Column))
    for position, tree in enumerate(trees, 1):
        if places[f"_{position}"] > 1 and next(islice(tree.walk(), MOST_REPEATED, None), None):
            raise NotProven("functions nested this deep", None, "Compute a part of it in a query before.")
    for node in list(made.walk()):
        if isinstance(node, exp.Column) and node.name == _ALL:
            call_of_all: exp.Expr = node.find_ancestor(exp.Anonymous) or made
            call_of_all.set("expressions", [tree.copy() for tree in trees])
        elif isinstance(node, exp.Column) and node.name == _LIMIT:
            precision, scale = decimal(result) or (38, 0)
            node.replace(exp.Literal.number(f"9.9E{precision - scale - 1}"))
        elif isinstance(node, exp.Column) and node.name[:1] == "_" and node.name[1:].isdigit():
            inside = isinstance(node.parent, exp.Anonymous | exp.Cast | exp.Distinct)
            tree = trees[int(node.name[1:]) - 1]
            node.replace(tree.copy() if inside else atom(tree))
        elif isinstance(node, exp.DataType) and _is_placeholder(node, _TYPE):
            node.replace(datatype(result, dialect))
        elif isinstance(node, exp.DataType) and _is_placeholder(node, _WIDE):
            node.replace(datatype(_wide(kinds), dialect))
        elif isinstance(node, exp.Anonymous) and node.name == ERROR and ERROR_TYPE not in node.meta:
            node.meta[ERROR_TYPE] = result
    whole: exp.Expr = made.this
    return whole.pop() if isinstance(whole, _ATOMS) else made


def marked_calls(tree: exp.Expr) -> list[exp.Anonymous]:
    """Return the aggregates or window functions within what ``render`` made of one, with their names restored."""
    calls = [node for node in tree.find_all(exp.Anonymous) if node.name.startswith(_AGGREGATE)]
    for node in calls:
        node.set("this", node.name[len(_AGGREGATE) :])
    return calls or ([tree] if isinstance(tree, exp.Anonymous) else [])
