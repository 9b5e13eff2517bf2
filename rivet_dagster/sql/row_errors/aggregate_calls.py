"""Aggregate and window functions in an expression."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

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

    >>> from rivet_dagster.sql.dialect import parse_item
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
