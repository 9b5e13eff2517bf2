"""Analysis of one expression: its type, and the columns of joints from which its value is computed.

The type that Spark gives an expression, where it is certain: one rule for each kind of node.

The rules hold with and without ANSI mode. None is always a correct answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from rivet_dagster.sql.columns.from_clause import Columns
from rivet_dagster.sql.columns.scope import ABSENT, Column, Origin, Scope
from rivet_dagster.sql.columns.type_names import type_name
from rivet_dagster.sql.parsing.nodes import children, names_of

Known = Callable[[exp.Expr | None], str | None]
"""Returns the types of a node's children, which are determined first."""

Rule = Callable[[Any, Known], str | None]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_SCALARS = {*_INTEGERS, "float", "double", "boolean", "string", "date", "timestamp", "timestamp_ntz"}
_VOID = "void"


def type_of(node: exp.Expr, known: Known) -> str | None:
    """Return the type of ``node``, given those of its children.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> type_of(parse_expression("a < b"), lambda node: None)
    'boolean'
    """
    rule = _RULES.get(type(node))
    return rule(node, known) if rule is not None else None


def common_type(types: Iterable[str | None]) -> str | None:
    """Return the type of a value that is one of several; NULL takes the type of the others.

    >>> common_type(["int", "void", "bigint"]), common_type(["int", "double"]), common_type(["int", "date"])
    ('bigint', 'double', None)
    """
    distinct = set(types)
    if None in distinct:
        return None
    others = distinct - {_VOID} or distinct
    if len(others) == 1:
        return others.pop()
    return _widest(others)


def _widest(types: Iterable[str | None]) -> str | None:
    """Return the wider of integers and doubles; None for other numbers, which are widened by other rules."""
    distinct = set(types)
    if distinct <= set(_INTEGERS):
        return max((str(t) for t in distinct), key=_INTEGERS.index)
    return "double" if distinct <= {*_INTEGERS, "double"} else None


def _always(name: str) -> Rule:
    return lambda node, known: name


def _same(node: exp.Expr, known: Known) -> str | None:
    return known(node.this)


def _string_of_string(node: exp.Expr, known: Known) -> str | None:
    return "string" if known(node.this) == "string" else None


def _literal(node: exp.Literal, known: Known) -> str | None:
    if node.is_string:
        return "string"
    text = node.name
    if not text.isdigit():
        return "double" if "e" in text.lower() and text[-1].isdigit() else None
    value = int(text)
    if value in (2**31, 2**63):  # an INT if a minus precedes it
        return None
    return "int" if value < 2**31 else "bigint" if value < 2**63 else None


def _concat(node: exp.Expr, known: Known) -> str | None:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.args.get("expression")]
    return "string" if all(known(part) in _SCALARS for part in parts) else None


def _arithmetic(node: exp.Expr, known: Known) -> str | None:
    return _widest([known(node.this), known(node.args.get("expression"))])


def _division(node: exp.Expr, known: Known) -> str | None:
    return "double" if _arithmetic(node, known) is not None else None


def _whole_division(node: exp.Expr, known: Known) -> str | None:
    return "bigint" if _arithmetic(node, known) in _INTEGERS else None


def _number(node: exp.Expr, known: Known) -> str | None:
    kind = known(node.this)
    return kind if kind in (*_INTEGERS, "float", "double") else None


def _to_whole(node: exp.Expr, known: Known) -> str | None:
    return "bigint" if _number(node, known) is not None and node.args.get("decimals") is None else None


def _sum(node: exp.Expr, known: Known) -> str | None:
    kind = known(node.this)
    if kind in _INTEGERS:
        return "bigint"
    if kind in ("float", "double"):
        return "double"
    precision, scale = _decimal(kind)
    return f"decimal({min(38, precision + 10)},{scale})" if precision else None


def _average(node: exp.Expr, known: Known) -> str | None:
    precision, scale = _decimal(known(node.this))
    if precision:
        return f"decimal({precision + 4},{scale + 4})" if precision <= 34 else None
    return "double" if _number(node, known) is not None else None


def _decimal(kind: str | None) -> tuple[int, int]:
    """Return precision and scale; zeros for another type."""
    if kind is None or not kind.startswith("decimal("):
        return 0, 0
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _distinct(node: exp.Distinct, known: Known) -> str | None:
    return known(node.expressions[0]) if len(node.expressions) == 1 else None


def _offset(node: exp.Expr, known: Known) -> str | None:
    default = node.args.get("default")
    return known(node.this) if default is None or known(default) in (known(node.this), _VOID) else None


def _first_of_several(node: exp.Expr, known: Known) -> str | None:
    return common_type([known(node.this), *[known(e) for e in node.expressions]])


def _case(node: exp.Case, known: Known) -> str | None:
    branches = [known(branch.args.get("true")) for branch in node.args["ifs"]]
    default = node.args.get("default")
    return common_type([*branches, known(default) if default is not None else _VOID])


def _if(node: exp.Expr, known: Known) -> str | None:
    return common_type([known(node.args.get("true")), known(node.args["false"]) if node.args.get("false") else _VOID])


def _array(node: exp.Array, known: Known) -> str | None:
    kind = common_type([known(e) for e in node.expressions]) if node.expressions else None
    return f"array<{kind}>" if kind not in (None, _VOID) else None


def _collected(node: exp.Expr, known: Known) -> str | None:
    kind = known(node.this)
    return f"array<{kind}>" if kind not in (None, _VOID) else None


def _element(node: exp.Bracket, known: Known) -> str | None:
    kind = known(node.this) or ""
    return kind[len("array<") : -1] if kind.startswith("array<") and len(node.expressions) == 1 else None


def _by_name(node: exp.Anonymous, known: Known) -> str | None:
    return _NAMED.get(node.name.lower())


_NAMED = {
    "make_date": "date",
    "isnull": "boolean",
    "isnotnull": "boolean",
    "every": "boolean",
    "some": "boolean",
    "cardinality": "int",
    "hash": "int",
    "xxhash64": "bigint",
    "crc32": "bigint",
}

_KINDS: tuple[tuple[Rule, tuple[type[exp.Expr], ...]], ...] = (
    (
        _always("boolean"),
        (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Not,
         exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Exists, exp.StartsWith, exp.EndsWith,
         exp.Contains, exp.Boolean, exp.IsNan, exp.LogicalOr, exp.LogicalAnd, exp.ArrayContains),
    ),
    (_always("bigint"), (exp.Count, exp.CountIf, exp.ApproxDistinct)),
    (
        _always("int"),
        (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Length, exp.ArraySize, exp.StrPosition, exp.Year,
         exp.Quarter, exp.Month, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.Hour,
         exp.Minute, exp.Second),
    ),
    (
        _always("double"),
        (exp.PercentRank, exp.CumeDist, exp.Sqrt, exp.Exp, exp.Ln, exp.Pow, exp.Stddev, exp.StddevPop, exp.Variance,
         exp.VariancePop, exp.Corr, exp.MonthsBetween),
    ),
    (_always("date"), (exp.TsOrDsToDate, exp.TsOrDsAdd, exp.LastDay, exp.NextDay, exp.AddMonths, exp.CurrentDate)),
    (_always("timestamp"), (exp.CurrentTimestamp, exp.TimestampTrunc)),
    (_always("string"), (exp.TimeToStr, exp.UnixToStr, exp.MD5, exp.SHA2, exp.Hex, exp.Typeof)),
    (_always(_VOID), (exp.Null,)),
    (_always("array<string>"), (exp.RegexpSplit,)),
    (
        _string_of_string,
        (exp.Upper, exp.Lower, exp.Trim, exp.Initcap, exp.Substring, exp.Left, exp.Right, exp.Replace,
         exp.RegexpReplace, exp.RegexpExtract, exp.Pad, exp.Repeat, exp.Reverse),
    ),
    (_concat, (exp.Concat, exp.DPipe)),
    (_arithmetic, (exp.Add, exp.Sub, exp.Mul, exp.Mod)),
    (_division, (exp.Div,)),
    (_whole_division, (exp.IntDiv,)),
    (_number, (exp.Neg, exp.Abs, exp.Round)),
    (_to_whole, (exp.Floor, exp.Ceil)),
    (
        _same,
        (exp.Paren, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Min, exp.Max, exp.First, exp.Last,
         exp.FirstValue, exp.LastValue, exp.NthValue, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.Nullif),
    ),
    (_offset, (exp.Lag, exp.Lead)),
    (_first_of_several, (exp.Coalesce, exp.Greatest, exp.Least)),
    (_collected, (exp.ArrayAgg, exp.ArrayUniqueAgg)),
)  # fmt: skip

_RULES: dict[type[exp.Expr], Rule] = {
    **{kind: rule for rule, kinds in _KINDS for kind in kinds},
    exp.Literal: _literal,
    exp.Cast: lambda node, known: type_name(node.to),
    exp.TryCast: lambda node, known: type_name(node.to),
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Distinct: _distinct,
    exp.Case: _case,
    exp.If: _if,
    exp.Nvl2: _if,
    exp.Array: _array,
    exp.Bracket: _element,
    exp.Anonymous: _by_name,
}


_UNKNOWN = Column("")


def expression(root: exp.Expr, scope: Scope, of_query: Callable[[exp.Query], Columns]) -> Column:
    """Return a nameless column for ``root``; ``of_query`` returns the columns of a query inside it.

    The walk is not recursive: an expression may be thousands of operators deep.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> from rivet_dagster.sql.columns.scope import Relation
    >>> scope = Scope()
    >>> scope.add("t", Relation((Column("a", "int", frozenset({("t", "a")})),)))
    >>> expression(parse_expression("a + 1"), scope, lambda query: None)
    Column(name='', type='int', origins=frozenset({('t', 'a')}))
    """
    if isinstance(root, exp.Column) and not isinstance(root.this, exp.Star):
        return _column(root, scope)
    types: dict[int, str | None] = {}
    origins: set[Origin] = set()

    def known(below: exp.Expr | None) -> str | None:
        return types.get(id(below))

    certain = True
    nodes, computed = [root], []
    for node in nodes:  # which grows: a node comes before its children
        leaf = _leaf(node, scope, of_query) if _MAY_BE_LEAF[type(node)] else None
        if leaf is None:
            computed.append(node)
            nodes += children(node)
            continue
        types[id(node)] = leaf.type
        if leaf.origins is None:
            certain = False
        else:
            origins |= leaf.origins
    for node in reversed(computed):
        types[id(node)] = type_of(node, known)
    return Column("", types.get(id(root)), frozenset(origins) if certain else None)


class _MayBeLeaf(dict[type[exp.Expr], bool]):
    def __missing__(self, kind: type[exp.Expr]) -> bool:
        self[kind] = issubclass(kind, exp.Column | exp.Query | exp.Star | exp.DataType)
        return self[kind]


_MAY_BE_LEAF = _MayBeLeaf()
_TYPE = Column("", None, frozenset())


def _leaf(node: exp.Expr, scope: Scope, of_query: Callable[[exp.Query], Columns]) -> Column | None:
    """Return the column of a node that is not analyzed further; None where it is computed from its children."""
    if isinstance(node, exp.Column):
        return _UNKNOWN if isinstance(node.this, exp.Star) else _column(node, scope)
    if isinstance(node, exp.Query):
        if isinstance(node.parent, exp.Exists):
            return _UNKNOWN  # whether rows exist depends on the columns that the filter reads
        columns = of_query(node)
        return columns[0] if columns is not None and len(columns) == 1 else _UNKNOWN
    if isinstance(node, exp.Star):
        return None if isinstance(node.parent, exp.Count) else _UNKNOWN
    return _TYPE


def _column(node: exp.Column, scope: Scope) -> Column:
    column = scope.resolve(names_of(node))
    return _UNKNOWN if column is None or column is ABSENT else column
