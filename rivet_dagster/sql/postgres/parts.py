"""Parts of a query of PostgreSQL that are different in Spark: kinds of nodes, functions, types and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import Dialect, exp

_POSTGRES = Dialect.get_or_raise("postgres")

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

_WHOLE = frozenset((exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT))
_FRACTIONS = frozenset((exp.DType.DECIMAL, exp.DType.DOUBLE, exp.DType.FLOAT))
_OTHER_TYPES = _FRACTIONS | {exp.DType.TEXT, exp.DType.DATE, exp.DType.BOOLEAN}
_TIMES = {
    exp.DType.TIMESTAMP: "it has no zone, as `timestamp_ntz` of Spark has none",
    exp.DType.TIMESTAMPTZ: "Spark's is `timestamp`",
}
_UNITS = frozenset("year quarter month week day hour minute second".split())
_FIELDS = frozenset("year quarter month week day hour minute doy".split())


def is_unknown(node: exp.Expr) -> bool:
    """Return whether nobody knows of a kind of node what it is in Spark."""
    return type(node) not in _ALIKE


def find_difference(node: exp.Expr) -> str | None:
    """Return what of a node is different in Spark, its children apart."""
    kind = type(node)
    if kind not in _ALIKE:
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            return f"the function {name.lower()} is not known to give the same in Spark"
        return f"`{show(node)}` is not known to mean the same in Spark"
    parts = _PARTS.get(kind)
    if parts is not None:
        others = [key for key, value in node.args.items() if value and key not in parts]
        if others:
            return f"`{show(node)}`: {others[0].strip('_')} is not known to mean the same in Spark"
    rule = _RULES.get(kind)
    return rule(node) if rule is not None else None


def unnamed_columns(node: exp.Expr) -> list[exp.Expr]:
    """Return the columns of a SELECT that have no name of their own, where the names can be seen."""
    if not isinstance(node, exp.Select) or not _names_columns(node):
        return []
    return [item for item in node.expressions if not isinstance(item, exp.Alias | exp.Column | exp.Star)]


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
    return f"`{show(node)}`: of integers it is an integer in PostgreSQL, and none in Spark"


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
        return f"`{show(node)}`: PostgreSQL rounds a fraction, Spark cuts it off: round it first"
    if to == exp.DType.DECIMAL and not node.to.expressions:
        return "the type `numeric` without digits: in Spark it is DECIMAL(10, 0)"
    if to in (exp.DType.VARCHAR, exp.DType.CHAR):
        return f"the type `{shown}`: Spark's is `string`, and nothing is cut off"
    return None if to in _OTHER_TYPES else f"the type `{shown}`: {_TIMES.get(to, 'it is not known to be the same')}"


def _of_interval(node: Any) -> str | None:
    unit = node.args.get("unit")
    if isinstance(node.this, exp.Literal) and isinstance(unit, exp.Var) and unit.name.lower().rstrip("s") in _UNITS:
        return None
    return f"`{show(node)}`: Spark reads intervals of one number and one unit"


def _of_truncation(node: Any) -> str | None:
    unit = node.args.get("unit")
    name = unit.name.lower() if unit is not None else ""
    return None if name in _UNITS else f"date_trunc by '{name}' is not known to be the same in Spark"


def _of_extract(node: Any) -> str | None:
    name = node.name.lower()
    return None if name in _FIELDS else f"extract of {name} is not the same in Spark, or not there"


def _of_subtraction(node: Any) -> str | None:
    left, right = node.this.unnest(), node.expression.unnest()
    if (_is_date(left) or _is_date(right)) and not isinstance(right, exp.Interval | exp.Literal):
        return f"`{show(node)}`: of dates it is a number of days in PostgreSQL, and an interval in Spark"
    return None


def _is_date(node: Any) -> bool:
    return isinstance(node, exp.CurrentDate) or (isinstance(node, exp.Cast) and node.to.this == exp.DType.DATE)


def _of_trim(node: Any) -> str | None:
    return "trim of other characters than blanks" if node.expression is not None else None


def _of_part(node: Any) -> str | None:
    numbers = [value for key, value in node.args.items() if key != "this" and value is not None]
    if all(isinstance(each, exp.Literal) and each.name.isdecimal() and int(each.name) > 0 for each in numbers):
        return None
    return f"`{show(node)}`: where a text is cut at other places than 1, 2, 3 ..., Spark cuts it elsewhere"


_RULES: dict[type[exp.Expr], Callable[[Any], str | None]] = {
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


def show(node: exp.Expr) -> str:
    """Return a part of a query as text, of at most 60 characters."""
    text = node.sql(dialect=_POSTGRES)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_line(node: exp.Expr) -> int | None:
    """Return the first line on which a part of a node stands."""
    lines = [each.meta["line"] for each in node.walk() if "line" in each.meta]
    return min(lines, default=None)
