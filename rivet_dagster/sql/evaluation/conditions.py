"""What may raise for a row, by the name of an operator or a function alone, and with which of Spark's conditions.

Spark's own ``TryEval`` tells whether a row raises; this says where to look, and how to name what is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.determinism import NON_DETERMINISTIC
from rivet_dagster.sql.evaluation.arithmetic import arithmetic, negation, symbol_of
from rivet_dagster.sql.evaluation.calls import call_of
from rivet_dagster.sql.evaluation.casts import cast
from rivet_dagster.sql.evaluation.functions import function_site
from rivet_dagster.sql.evaluation.site import Site, Unclassified, both, shown, type_of
from rivet_dagster.sql.evaluation.strings import CAST_INVALID_INPUT, casts_a_string, is_string

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_LOGIC = (exp.And, exp.Or, exp.Not)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_NEVER = (
    exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Star, exp.Paren, exp.Alias, exp.Identifier, exp.DataType,
    exp.Tuple, exp.Placeholder, exp.Parameter, exp.Lambda, exp.Dot, exp.HexString, exp.Var, exp.Interval, exp.Ordered,
    exp.Like, exp.ILike, exp.Escape, exp.Collate, exp.PropertyEQ, exp.Struct, exp.DPipe, exp.TryCast,
)  # fmt: skip


def site_of(node: exp.Expr) -> Site | Unclassified | None:
    """Return the site of a node; None if it never raises itself, Unclassified if that is not known.

    The operands of a node are nodes of their own: its site says only what it adds to them.

    >>> from rivet_dagster.sql.dialect import parse_expression
    >>> site_of(parse_expression("upper(name)"))
    >>> site_of(parse_expression("price < 9")).guard
    "typeof({0}) LIKE '%string%'"
    >>> site_of(parse_expression("my_function(price)"))
    Unclassified(construct='my_function')
    """
    symbol = symbol_of(node)
    if symbol is not None:
        return arithmetic(node.this, node.args["expression"], symbol)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return cast(node.this, node.to)
    if isinstance(node, exp.Neg):
        return None if isinstance(node.this, exp.Literal) else negation(node.this, "negative")
    if isinstance(node, (*_COMPARISONS, *_BITS)):
        return _of_one_type((node.this, node.args["expression"]), "comparison", " cannot be compared")
    if isinstance(node, exp.Between):
        return _of_one_type((node.this, node.args["low"], node.args["high"]), "comparison", " cannot be compared")
    if isinstance(node, exp.In):
        return _of_one_type((node.this, *node.expressions), "comparison", " cannot be compared")
    if isinstance(node, (exp.Is, *_LOGIC)):
        return _boolean(node)
    if isinstance(node, exp.Case | exp.If | exp.Coalesce | exp.Nullif | exp.Nvl2 | exp.Array):
        return _branches(node)
    if isinstance(node, exp.Bracket):
        return _element(node)
    if isinstance(node, _NEVER):
        return None
    return _call(node)


def _of_one_type(operands: Sequence[exp.Expr], kind: str, what: str) -> Site | None:
    guard = casts_a_string(operands)
    if guard is None:
        return None
    values = ", ', ', ".join(f"{shown(i)}, ' of the type ', {type_of(i)}" for i in range(min(len(operands), 3)))
    return Site(kind, tuple(operands), f"'{CAST_INVALID_INPUT}'", f"concat({values}, '{what}')", guard)


def _boolean(node: exp.Expr) -> Site | None:
    """Return the site of AND, OR, NOT, and of IS TRUE: strings are cast to BOOLEAN."""
    if isinstance(node, exp.Is) and not isinstance(node.args["expression"], exp.Boolean):
        return None
    operands = [node.this, *([node.args["expression"]] if isinstance(node, exp.And | exp.Or) else [])]
    unknown = [
        operand for operand in operands if not isinstance(operand.unnest(), exp.Predicate | exp.Not | exp.Connector)
    ]
    if not unknown:
        return None
    guard = " OR ".join(is_string(i) for i in range(len(unknown)))
    values = ", ', ', ".join(shown(i) for i in range(len(unknown)))
    message = f"concat({values}, ' cannot be cast to BOOLEAN')"
    return Site("boolean", tuple(unknown), f"'{CAST_INVALID_INPUT}'", message, guard)


def _branches(node: exp.Expr) -> Site | None:
    """Return the site of a node that gives one of several values, or collects them: all are cast to one type."""
    what = " cannot be cast to one type"
    if isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        site = _of_one_type([*results, *([default] if default is not None else [])], "branches", what)
        if node.this is None:
            return site
        compared = _of_one_type([node.this, *(branch.this for branch in node.args["ifs"])], "comparison", what)
        return both(site, compared)
    if isinstance(node, exp.If | exp.Nvl2):
        branches = [node.args["true"], *([node.args["false"]] if node.args.get("false") is not None else [])]
        return _of_one_type(branches, "branches", what)
    if isinstance(node, exp.Nullif):
        return _of_one_type([node.this, node.args["expression"]], "comparison", " cannot be compared")
    return _of_one_type([node.this, *node.expressions] if node.args.get("this") else node.expressions, "branches", what)


def _element(node: exp.Bracket) -> Site | Unclassified | None:
    """Return the site of ``a[b]``, and of ``element_at``, which sqlglot parses as the same node."""
    if len(node.expressions) != 1:
        return Unclassified("[]")
    operands = (node.this, node.expressions[0])
    name = ("try_element_at" if node.args.get("safe") else "element_at") if node.args.get("offset") == 1 else "[]"
    return function_site(name, operands)


def _call(node: exp.Expr) -> Site | Unclassified | None:
    call = call_of(node)
    if call is None:
        return Unclassified(node.sql_name() if isinstance(node, exp.Func) else node.key)
    name, operands = call
    if name in NON_DETERMINISTIC and not (name == "unix_timestamp" and operands):
        return Unclassified(name)
    return function_site(name, operands)
