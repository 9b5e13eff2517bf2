"""The functions that a tree calls, by Spark's names: sqlglot has other nodes for many, and reorders arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from sqlglot import exp

Operands = tuple[exp.Expr, ...]


def call_of(node: exp.Expr) -> tuple[str, Operands] | None:
    """Return the name of Spark's function that a node calls, in lower case, and its operands in Spark's order.

    Of several names of one function, this returns one: ``size`` is ``array_size``, ``nvl`` is ``coalesce``. Arguments
    that are words (the unit of ``date_trunc``), and formats that Spark takes as defaults, are no operands.

    Return None for a node that is no call of a function, or of one that is not known.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> name, operands = call_of(parse_expression("date_sub(day, n)"))
    >>> name, [operand.sql() for operand in operands]
    ('date_sub', ['day', 'n'])
    """
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.lower(), tuple(node.expressions)
    special = _SPECIAL.get(type(node))
    if special is not None:
        return special(node)
    name = _names().get(type(node).__name__)
    return (name, _operands(node, *node.arg_types)) if name is not None else None


def is_artificial(node: exp.Expr) -> bool:
    """Return whether a node stands for no part of the text: sqlglot wraps the argument of ``year`` in a conversion.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> is_artificial(parse_expression("year(day)").this), is_artificial(parse_expression("to_date(day)"))
    (True, False)
    """
    parent = node.parent
    if isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):
        return isinstance(parent, _OF_DATES)
    if isinstance(node, exp.Cast) and isinstance(parent, exp.AtTimeZone | exp.FromTimeZone):
        return node.arg_key == "this" and node.type is not None and "start" not in node.meta
    if isinstance(parent, exp.TsOrDsAdd):
        factor = node.args.get("expression") if isinstance(node, exp.Mul) else None
        return isinstance(factor, exp.Neg) and _is_added(factor.this)
    if isinstance(parent, exp.VarMap):
        return True
    # The LIKE of an ESCAPE is one operator with it; ANY (...) after LIKE is a part of it.
    return isinstance(node, exp.Like | exp.ILike) and isinstance(parent, exp.Escape)


@cache
def _names() -> dict[str, str]:
    """Return the names of functions by the names of the classes whose arguments are in Spark's order."""
    lines = (files("rivet_dagster.sql.row_errors") / "nodes.txt").read_text("utf-8").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def _operands(node: exp.Expr, *keys: str) -> Operands:
    operands: list[exp.Expr] = []
    for key in keys:
        value = node.args.get(key)
        operands += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr)]
    return tuple(operands)


def _call(name: str, *keys: str) -> Callable[[exp.Expr], tuple[str, Operands]]:
    """Return a function that reads a call of ``name`` from the node's arguments ``keys``."""
    return lambda node: (name, _operands(node, *keys))


def _of_datetime(name: str, *keys: str) -> Callable[[exp.Expr], tuple[str, Operands]]:
    """Return the same for a node whose first argument sqlglot wraps in a conversion that is not in the text."""
    return lambda node: (name, (*_operands(node.this, "this"), *_operands(node, *keys)))


def _in_zone(name: str) -> Callable[[exp.Expr], tuple[str, Operands]]:
    """Return the same for a node whose first argument sqlglot casts if its author does not."""

    def read(node: exp.Expr) -> tuple[str, Operands]:
        instant = node.this.this if is_artificial(node.this) else node.this
        return name, (instant, *_operands(node, "zone"))

    return read


def _added_days(node: exp.Expr) -> tuple[str, Operands]:
    """Return ``date_add``, or ``date_sub``, which sqlglot parses as the addition of ``days * -1``."""
    days = node.args["expression"]
    if is_artificial(days):
        return "date_sub", (*_operands(node, "this"), days.this.unnest())
    return "date_add", _operands(node, "this", "expression")


def _unix_timestamp(node: exp.Expr) -> tuple[str, Operands]:
    if isinstance(node.this, exp.CurrentTimestamp):
        return "unix_timestamp", ()
    return "unix_timestamp", _without_default(_operands(node, "this", "format"))


def _without_default(operands: Operands) -> Operands:
    """Remove the format that sqlglot adds, in its own notation, where there is none in the text."""
    return tuple(operand for operand in operands if not operand.name.startswith("%Y-%mstrict"))


def _differences(node: exp.Expr) -> tuple[str, Operands]:
    return "datediff", _operands(node, "expression", "this")


def _struct(node: exp.Expr) -> tuple[str, Operands]:
    fields = (field.expression if isinstance(field, exp.PropertyEQ) else field for field in node.expressions)
    return "struct", tuple(fields)


def _map(node: exp.Expr) -> tuple[str, Operands]:
    pairs = zip(node.args["keys"].expressions, node.args["values"].expressions, strict=True)
    return "map", tuple(operand for pair in pairs for operand in pair)


def _like(node: exp.Expr) -> tuple[str, Operands]:
    pattern = node.this if isinstance(node, exp.Escape) else node
    name = "ilike" if isinstance(pattern, exp.ILike) else "like"
    escape = _operands(node, "expression") if isinstance(node, exp.Escape) else ()
    return name, (*_operands(pattern, "this", "expression"), *escape)


def _sorted(node: exp.Expr) -> tuple[str, Operands]:
    return ("array_sort" if node.args.get("expression") else "sort_array"), _operands(node, "this", "expression")


def _call_as_written(name: str, *keys: str) -> Callable[[exp.Expr], tuple[str, Operands]]:
    """Return the same as ``_call``, without numbers that sqlglot adds, as the base of ``log2``, which have no place."""

    def read(node: exp.Expr) -> tuple[str, Operands]:
        return name, tuple(operand for operand in _operands(node, *keys) if not _is_added(operand))

    return read


def _is_added(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and "start" not in node.meta


_OF_DATES = (
    exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.Month, exp.TimeToStr, exp.WeekOfYear, exp.Year
)  # fmt: skip

_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr], tuple[str, Operands]]] = {
    exp.ApproxQuantile: _call("percentile_approx", "this", "quantile", "accuracy"),
    exp.ArgMax: _call("max_by", "this", "expression"),
    exp.ArgMin: _call("min_by", "this", "expression"),
    exp.ArrayAgg: _call("collect_list", "this"),
    exp.ArrayAppend: _call("array_append", "this", "expression"),
    exp.ArrayInsert: _call("array_insert", "this", "position", "expression"),
    exp.ArrayPrepend: _call("array_prepend", "this", "expression"),
    exp.ArrayRemove: _call("array_remove", "this", "expression"),
    exp.ArraySlice: _call("slice", "this", "start", "end"),
    exp.ArraySort: _sorted,
    exp.Any: _call("any", "this"),
    exp.AtTimeZone: _in_zone("from_utc_timestamp"),
    exp.FromTimeZone: _in_zone("to_utc_timestamp"),
    exp.BitwiseLeftShift: _call("shiftleft", "this", "expression"),
    exp.BitwiseRightShift: _call("shiftright", "this", "expression"),
    exp.Ceil: _call("ceil", "this", "decimals"),
    exp.Floor: _call("floor", "this", "decimals"),
    exp.DateDiff: _differences,
    exp.TimestampDiff: _differences,
    exp.DateTrunc: _call("trunc", "this"),
    exp.TimestampTrunc: _call("date_trunc", "this"),
    exp.Day: _of_datetime("day"),
    exp.DayOfMonth: _of_datetime("day"),
    exp.DayOfWeek: _of_datetime("dayofweek"),
    exp.DayOfYear: _of_datetime("dayofyear"),
    exp.Month: _of_datetime("month"),
    exp.WeekOfYear: _of_datetime("weekofyear"),
    exp.Year: _of_datetime("year"),
    exp.DPipe: _call("concat", "this", "expression"),
    exp.Extract: _call("extract", "expression"),
    exp.First: _call("first", "this"),
    exp.Last: _call("last", "this"),
    exp.Hex: _call("hex", "this"),
    exp.Initcap: _call("initcap", "this"),
    exp.JSONExtractScalar: _call("get_json_object", "this"),
    exp.LastDay: _call("last_day", "this"),
    exp.Escape: _like,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Log: _call_as_written("log", "this", "expression"),
    exp.Pad: _call("lpad", "this", "expression", "fill_pattern"),
    exp.Quantile: _call("percentile", "this", "quantile"),
    exp.RegexpExtract: _call_as_written("regexp_extract", "this", "expression", "group"),
    exp.RegexpExtractAll: _call_as_written("regexp_extract_all", "this", "expression", "group"),
    exp.RegrAvgx: _call("regr_avgx", "this", "expression"),
    exp.RegrAvgy: _call("regr_avgy", "this", "expression"),
    exp.RegrSxx: _call("regr_sxx", "this", "expression"),
    exp.RegrSxy: _call("regr_sxy", "this", "expression"),
    exp.RegrSyy: _call("regr_syy", "this", "expression"),
    exp.StrPosition: _call("locate", "substr", "this", "position"),
    exp.StrToMap: _call("str_to_map", "this", "pair_delim", "key_value_delim"),
    exp.StrToTime: _call("to_timestamp", "this", "format"),
    exp.StrToUnix: _unix_timestamp,
    exp.Struct: _struct,
    exp.TimeDiff: _call("time_diff", "this", "expression"),
    exp.TimeToStr: _of_datetime("date_format", "format"),
    exp.TimeTrunc: _call("time_trunc", "this"),
    exp.TimestampAdd: _call("timestampadd", "expression", "this"),
    exp.Transform: _call("transform", "this", "expression"),
    exp.Trim: _call("trim", "this", "expression"),
    exp.TsOrDsAdd: _added_days,
    exp.TsOrDsToDate: _call("to_date", "this", "format"),
    exp.Uniform: _call("uniform", "this", "expression"),
    exp.UnixToStr: lambda node: ("from_unixtime", _without_default(_operands(node, "this", "format"))),
    exp.Uuid: _call("uuid"),
    exp.VarMap: _map,
}
