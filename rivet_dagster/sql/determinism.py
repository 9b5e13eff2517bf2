"""Determinism: whether a query returns the same rows each time it is evaluated over the same tables."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import pairwise

from sqlglot import TokenType, exp

from rivet_dagster.sql.dialect import Query

NON_DETERMINISTIC = frozenset(
    """
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length
    now current_timestamp current_date curdate current_time localtimestamp unix_timestamp
    first first_value last last_value any_value max_by min_by mode
    collect_list collect_set array_agg listagg string_agg
    row_number ntile lag lead nth_value sample
    percentile_approx approx_percentile reflect try_reflect java_method
    """.split()
)
"""Spark's functions whose result depends on time, on chance, or on the order in which rows are processed."""

_IN_DOUBT = frozenset({exp.TableSample, exp.Limit, exp.Offset, exp.Fetch, exp.Anonymous})

_WITHOUT_PARENTHESES = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})


def is_deterministic(query: Query) -> bool:
    """Return False if the query uses such a function, an unknown one, LIMIT without ORDER BY, or TABLESAMPLE.

    A query in doubt counts as non-deterministic: this costs a stored table, but never returns a wrong row.
    """
    if query.tree is None or _calls_non_deterministic(query) or _limits_unordered_pipe(query):
        return False
    if _IN_DOUBT.isdisjoint(query.kinds):
        return True
    for node in [node for node in query.nodes if type(node) in _IN_DOUBT]:
        if isinstance(node, exp.TableSample):
            return False
        if isinstance(node, exp.Anonymous):
            if node.name.lower() not in spark_functions():
                return False
        elif not _is_ordered(node):
            return False
    return True


@cache
def spark_functions() -> frozenset[str]:
    """Return the names of Spark 4.1's built-in functions, as listed by SHOW FUNCTIONS."""
    return frozenset((files("rivet_dagster.sql") / "spark_functions.txt").read_text("utf-8").split())


def _calls_non_deterministic(query: Query) -> bool:
    if NON_DETERMINISTIC.isdisjoint(query.words):
        return False
    for following, word in enumerate(query.words, 1):
        if word in NON_DETERMINISTIC:
            after = query.tokens[following].token_type if following < len(query.tokens) else None
            if word in _WITHOUT_PARENTHESES or after == TokenType.L_PAREN:
                return True
    return False


def _limits_unordered_pipe(query: Query) -> bool:
    """Return whether a ``|> LIMIT`` does not directly follow a ``|> ORDER BY``; the tree does not show their order."""
    if "|>" not in query.text:
        return False
    operators: list[TokenType | None] = [None]  # the last operator at each level of parentheses
    for token, after in pairwise(query.tokens):
        if token.token_type == TokenType.L_PAREN:
            operators.append(None)
        elif token.token_type == TokenType.R_PAREN and len(operators) > 1:
            operators.pop()
        elif token.token_type == TokenType.PIPE_GT:
            if after.token_type in (TokenType.LIMIT, TokenType.OFFSET) and operators[-1] != TokenType.ORDER_BY:
                return True
            operators[-1] = after.token_type
    return False


def _is_ordered(limit: exp.Expr) -> bool:
    return limit.parent is not None and limit.parent.args.get("order") is not None
