"""Aggregate and window functions: which cast strings, a matter of single rows, and which may overflow themselves.

Aggregate and window functions in an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.sql.row_errors.implicit_casts import cast_of, is_string
from rivet_dagster.sql.row_errors.site import Site, site_for

_OF_DOUBLES = frozenset(
    """
    sum avg mean try_sum try_avg std stddev stddev_pop stddev_samp var_pop var_samp variance skewness kurtosis
    corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy median percentile percentile_approx approx_percentile percentile_cont percentile_disc
    """.split()
)

_OF_BOOLEANS = frozenset("any some every bool_and bool_or count_if".split())

_OF_ANYTHING = frozenset(
    """
    any_value approx_count_distinct array_agg bit_and bit_or bit_xor collect_list collect_set count first first_value
    grouping grouping_id last last_value listagg max max_by min min_by mode string_agg
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """.split()
)

_OVERFLOWS = frozenset("sum avg mean".split())


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A call of an aggregate or window function.

    ``rows`` is the site of the casts of strings to the type that the function takes, which raise for single rows;
    ``casts`` is the template of an expression over a row that raises where such a cast does. ``overflow`` is the guard
    of errors of the function itself, which belong to no row; None if there are none.
    """

    name: str
    operands: tuple[exp.Expr, ...]
    rows: Site | None = None
    casts: str = "NULL"
    overflow: str | None = None


def is_aggregate(name: str) -> bool:
    """Return whether ``name`` is one of the aggregate and window functions that are classified here."""
    return name in _OF_DOUBLES or name in _OF_BOOLEANS or name in _OF_ANYTHING


def aggregate(name: str, operands: Sequence[exp.Expr]) -> Aggregate:
    """Return the call of the aggregate function ``name``.

    >>> aggregate("avg", [exp.column("price")]).rows.guard
    "typeof({0}) LIKE 'string%'"
    >>> aggregate("max", [exp.column("price")]).rows
    """
    operands = tuple(operand.expressions[0] if isinstance(operand, exp.Distinct) else operand for operand in operands)
    to = "double" if name in _OF_DOUBLES else "boolean" if name in _OF_BOOLEANS else None
    if to is None:
        return Aggregate(name, operands)
    reasons = [reason for i, operand in enumerate(operands) for reason in cast_of(operand, i, to)]
    casts = [
        f"CASE WHEN {is_string(i)} THEN CAST(CAST({{{i}}} AS STRING) AS {to.upper()}) END" for i in range(len(operands))
    ]
    return Aggregate(
        name,
        operands,
        site_for(name, operands, reasons),
        f"struct({', '.join(casts)})",
        _overflow(name) if name in _OVERFLOWS and not all(map(_is_narrow, operands)) else None,
    )


def _overflow(name: str) -> str:
    """Return the guard of an overflow: it takes values near the end of a type's range, or 10 billion rows."""
    full = "typeof({0}) LIKE 'interval%' OR typeof({0}) RLIKE '^decimal.(29|3[0-8]),'"
    return f"typeof({{0}}) = 'bigint' OR {full}" if name == "sum" else full


def _is_narrow(operand: exp.Expr) -> bool:
    """Return whether the text of an argument shows that it is of a type of which no sum overflows."""
    operand = operand.unnest()
    if isinstance(operand, exp.Case):
        default = operand.args.get("default")
        results = [branch.args["true"] for branch in operand.args["ifs"]]
        return all(map(_is_narrow, [*results, *([default] if default is not None else [])]))
    if isinstance(operand, exp.If | exp.Coalesce):
        operands = operand.expressions if isinstance(operand, exp.Coalesce) else [operand.args["true"]]
        other = operand.this if isinstance(operand, exp.Coalesce) else operand.args.get("false")
        return all(map(_is_narrow, [*operands, *([other] if other is not None else [])]))
    if isinstance(operand, exp.Cast):
        return operand.to.is_type(*_NARROW)
    if isinstance(operand, exp.Neg):
        operand = operand.this
    is_integer = isinstance(operand, exp.Literal) and not operand.is_string and operand.name.isdigit()
    return isinstance(operand, exp.Null) or (is_integer and len(operand.name) < 10)


_NARROW = (
    exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.FLOAT,
    exp.DataType.Type.DOUBLE, *exp.DataType.TEXT_TYPES,
)  # fmt: skip


_BY_NAME = frozenset(
    """
    any approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or bit_xor bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
    covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kurtosis last last_value listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum try_variant_agg
    var_pop var_samp variance
    """.split()
)
"""Spark's aggregate functions, as SHOW FUNCTIONS and their descriptions list them."""


def aggregates(tree: exp.Expr) -> list[exp.Expr]:
    """Return the aggregate functions of an expression, each with its FILTER; not those of windows and subqueries.

    >>> from rivet_dagster.sql.parsing.dialect import parse_item
    >>> [node.sql() for node in aggregates(parse_item("sum(a) / count(b) FILTER (WHERE c) + max(d) OVER ()"))]
    ['SUM(a)', 'COUNT(b) FILTER(WHERE c)']
    """
    return list(_aggregates(tree))


def windows(tree: exp.Expr) -> list[exp.Expr]:
    """Return the window functions of an expression."""
    return list(tree.find_all(exp.Window))


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Window | exp.Query):
        return
    if isinstance(node, exp.Filter | exp.WithinGroup) or _is_aggregate(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from _aggregates(child)


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in _BY_NAME)
