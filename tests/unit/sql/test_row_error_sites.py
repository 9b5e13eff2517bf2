"""The classification of operators and functions by what may raise for a row."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from rivet_dagster.model.row_errors import NotSeparable, RowErrors
from rivet_dagster.sql.error import SqlError, UnreadableSql
from rivet_dagster.sql.parsing.dialect import parse_expression
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC, spark_functions
from rivet_dagster.sql.row_errors.aggregates import Aggregate
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.fallible import fallible
from rivet_dagster.sql.row_errors.function_calls import call_of
from rivet_dagster.sql.row_errors.separation import separate
from rivet_dagster.sql.row_errors.site import Site, Unclassified
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import ExpressionText

SYNTAX = set("and any between case cast div in not or when".split())
"""Operators that SHOW FUNCTIONS lists: they are no calls."""

NEVER = """
a
a.b
-1
1
upper(a)
a || b
concat(a, 1)
DATE'2026-01-31'
TIMESTAMP'2026-01-31 12:00:00'
1.5BD
1D
CAST(1 AS BIGINT)
CAST(a AS STRING)
CAST(NULL AS INT)
TRY_CAST(a AS INT)
try_divide(a, b)
CASE WHEN a THEN 1 ELSE 2 END
CASE WHEN a THEN 'x' ELSE 'y' END
coalesce(a)
coalesce(1, 2)
a IS NULL
a IS NOT NULL
a > 1 AND b > 2
NOT (a > 1)
'a' = 'b'
a LIKE 'x%'
a RLIKE b IS NULL
(a, b) = (1, 'x')
(a, b) IN ((1, 2))
EXISTS (SELECT 1)
transform(a, x -> upper(x))
struct(a, b)
named_struct('x', a)
array(1, 2)
map('x', 1, 'y', 2)
explode(collection => a)
next_day(NULL, 'MO')
format_string('%s-%s', a, b)
encode(a, 'utf-8')
from_json(a, 'x INT')
round(1.5D, 2) IS NULL
INTERVAL '1' DAY
"""

UNKNOWN = {
    "my_function(a)": "my_function",
    "a + rand()": None,
    "rand()": "rand",
    "uuid()": "uuid",
    "current_timestamp()": "current_timestamp",
    "transform(a, x -> my_function(x))": "my_function",
    "transform(a, x -> rand())": "rand",
    "from_avro(a, 'x')": "from_avro",
    "reflect(a, b)": "reflect",
    "map(a, 1, b, 2)": "map",
    "str_to_map(a)": "str_to_map",
    "transform(a, x -> map_from_arrays(x, x))": "map_from_arrays",
    "split(str => a, regex => b)": "split with named arguments",
}
"""Constructs that a node names which is not known; None where it is only known of an operand."""


@pytest.mark.parametrize("text", NEVER.strip().splitlines())
def test_never_raises(text: str) -> None:
    """No site, whatever the types: the whole expression may stay as it is."""
    assert site_of(parse_expression(text)) is None


@pytest.mark.parametrize(("type_", "most"), [("TINYINT", 127), ("INT", 2147483647), ("BIGINT", 9223372036854775807)])
def test_a_literal_that_its_type_holds_never_raises(type_: str, most: int) -> None:
    for number in (most, -most):
        assert site_of(parse_expression(f"CAST({number} AS {type_})")) is None
    assert isinstance(site_of(parse_expression(f"CAST({most + 1} AS {type_})")), Site)


@pytest.mark.parametrize(("text", "construct"), UNKNOWN.items())
def test_unknown(text: str, construct: str | None) -> None:
    """A node of which it is not known whether it raises is named."""
    site = site_of(parse_expression(text))
    if construct is None:
        assert isinstance(site, Site)
    else:
        assert site == Unclassified(construct)


@pytest.mark.parametrize("name", sorted(spark_functions() - SYNTAX))
def test_operands(name: str) -> None:
    """The operands of a call are those of its text, in any case a part of them, each once."""
    read = 0
    for arity in range(8):
        given = [f"a{i}" for i in range(arity)]
        try:
            node = parse_expression(f"{name}({', '.join(given)})")
        except SqlError:
            continue
        call = call_of(node)
        if call is None:
            assert isinstance(node, exp.Cast | exp.Bracket | exp.Mod | exp.Paren), name
            continue
        names = [operand.name for operand in call[1] if isinstance(operand, exp.Column | exp.Paren)]
        assert len(names) == len(set(names))
        assert set(names) <= set(given)
        read += call[0] in spark_functions() or call[0] == "timestampadd"
    assert read or call is None


@pytest.mark.slow
def test_every_operand_has_its_text() -> None:
    """Where a call can fail its operands are parts of the author's text, which the condition of its errors needs."""
    arguments = [*(", ".join(f"a{i}" for i in range(arity)) for arity in range(1, 8)), "a0, 'dd/MM/yyyy'"]
    lost = set()
    for call in (f"{name}({given})" for name in sorted(spark_functions() - SYNTAX) for given in arguments):
        text = f"coalesce(upper({call}), a9) || '-'"
        try:
            expression = ExpressionText(text, 1)
        except (SqlError, UnreadableSql):
            continue
        for node in expression.tree.walk():
            site = site_of(node)
            nodes = [node, *site.operands] if isinstance(site, Site) else []
            lost |= {text for operand in nodes if expression.of(operand) is None}
    assert lost == set()


def test_every_function_is_classified() -> None:
    """The functions of Spark that are not known are these, and those that depend on time, chance or order."""
    unknown = set()
    for name in spark_functions() - SYNTAX - NON_DETERMINISTIC:
        for arity in range(8):
            try:
                site = site_of(parse_expression(f"{name}({', '.join(f'a{i}' for i in range(arity))})"))
            except SqlError:
                continue
            if isinstance(site, Unclassified):
                unknown.add(site.construct)
    assert sorted(unknown - NON_DETERMINISTIC) == sorted(OTHERS.split())


OTHERS = """
approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate bitmap_and_agg bitmap_construct_agg
bitmap_or_agg collations count_min_sketch from_avro from_protobuf histogram_numeric hll_sketch_agg hll_sketch_estimate
hll_union hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float make_time map
map_concat map_from_arrays map_from_entries python_worker_logs range schema_of_avro schema_of_variant_agg sql_keywords
st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid str_to_map theta_difference theta_intersection
theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg time time_diff time_trunc
to_avro to_protobuf to_time transform_keys try_to_time
"""
"""Sketches, geometry, Avro, Protobuf, the type TIME (which Spark 4.1 refuses), functions that give tables, and maps.

Spark's functions that make maps keep what they read of a row for which they fail.
"""


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("sum(a)", "typeof({0}) LIKE 'string%'"),
        ("sum(DISTINCT a)", "typeof({0}) LIKE 'string%'"),
        ("bool_or(a)", "typeof({0}) LIKE 'string%'"),
        ("max(a)", None),
        ("count(*)", None),
        ("collect_list(a)", None),
    ],
)
def test_aggregates(text: str, guard: str | None) -> None:
    """An aggregate of numbers casts strings, for each row."""
    site = site_of(parse_expression(text))
    assert isinstance(site, Aggregate)
    assert (site.rows.guard if site.rows is not None else None) == guard


def test_overflow_of_aggregates() -> None:
    """Only sums and averages overflow themselves."""
    overflowing = {
        text for text in ("sum(a)", "avg(a)", "max(a)", "stddev(a)") if _aggregate(text).overflow is not None
    }
    assert overflowing == {"sum(a)", "avg(a)"}


def _aggregate(text: str) -> Aggregate:
    site = site_of(parse_expression(text))
    assert isinstance(site, Aggregate)
    return site


@pytest.mark.parametrize(
    ("conditions", "proof", "compared"),
    [
        ("ON t.s = u.k", "with rows", 0),
        ("ON t.s = u.k WHERE t.id > 1", "with rows", 1),
        ("ON t.s = u.k AND t.id > 1", "with rows", 2),
        ("ON t.s = u.k AND t.id BETWEEN 1 AND 2", "never", 1),
        ("ON t.s = u.k JOIN v ON v.id = t.id", "with rows", 2),
        ("ON CAST(t.s AS INT) = 1 + u.k", "with rows", 0),
        ("ON CAST(t.s AS INT) = 1 + u.k WHERE t.id > 1", "never", 0),
        ("ON CAST(t.s AS INT) = 1 + u.k AND t.id > 1", "never", 1),
        ("ON CAST(t.s AS INT) = 1 + u.k CROSS JOIN v", "never", 0),
    ],
)
def test_other_conditions_may_leave_out_a_row_whose_key_fails(conditions, proof, compared):
    found = separate(f"SELECT t.id FROM t JOIN u {conditions}", QueryLocation("j"))
    assert isinstance(found, RowErrors)
    assert found.proof == proof
    assert [one.is_separated for one in found.compared] == [True] * compared


def test_a_place_is_told_with_the_line_where_it_begins():
    """Also a cast that is written as the call of a function."""
    found = separate(
        "SELECT id,\n 1 + CAST(\n s\n AS INT) AS n, int(s) AS i FROM t", QueryLocation("j", "j.sql", 1), []
    )
    assert isinstance(found, RowErrors)
    (errors,) = found.queries
    assert "array('CAST( s AS INT)', '1 + CAST( s AS INT)', 'int(s)')[e.site] AS expression" in errors
    assert "array(2, 2, 4)[e.site] AS line" in errors


@pytest.mark.slow
def test_what_no_driver_can_plan_is_refused_with_its_number():
    def found(places: int) -> RowErrors | NotSeparable | None:
        total = " + ".join(f"CAST(c{place} AS INT)" for place in range(places))
        return separate(f"SELECT id,\n {total} AS n FROM t", QueryLocation("j"))

    assert isinstance(found(40), RowErrors)
    refused = found(80)
    assert isinstance(refused, NotSeparable)
    told = r"\d+ places that can fail in one SELECT .* 2,\d+,\d+ characters, of at most 2,100,000: split the joint"
    assert re.match(told, refused.construct)


@pytest.mark.slow
def test_the_query_of_errors_grows_with_the_places_that_can_fail():
    def length(places: int) -> int:
        casts = ", ".join(f"CAST(c{place:03} AS DECIMAL(10, 2)) / b AS n{place:03}" for place in range(places))
        found = separate(f"SELECT id, {casts} FROM t", QueryLocation("j", "joints/j.sql", 1))
        assert isinstance(found, RowErrors)
        return len(found.good) + sum(map(len, found.queries))

    # Up to 62 of them, each is asked once for a row.
    assert length(60) < 2.02 * length(30)
    assert length(60) < 0.9 * length(63)
    assert length(300) < 3.02 * length(100)


@pytest.mark.parametrize(
    ("text", "attempt"),
    [
        ("CAST(a AS INT)", "try_cast(a AS INT)"),
        ("a::INT", "try_cast(a AS INT)"),
        ("(CAST(a AS DATE))", "try_cast(a AS DATE)"),
        ("CAST(CAST(a AS DATE) AS TIMESTAMP)", "try_cast(try_cast(a AS DATE) AS TIMESTAMP)"),
        ("CAST(a AS INT) > 5", "try_cast(a AS INT) > 5"),
        ("b = CAST(a AS INT)", None),  # b may be a string, which Spark casts
        ("to_timestamp(a)", None),  # which fails for TRUE, as a cast does not
        ("CAST(a AS INT) + 1", None),
        ("coalesce(CAST(a AS INT), 0)", None),
        ("CAST(a AS ARRAY<INT>)", None),  # an attempt would be NULL in an element
    ],
)
def test_an_attempt_gives_the_value_and_raises_nothing(text: str, attempt: str | None) -> None:
    found = fallible(ExpressionText(text, 1))
    assert found is not None
    assert found.attempt == attempt
    assert found.value == (attempt or f"CASE WHEN {found.failed} THEN NULL ELSE {text} END")
    assert found.truth == (attempt or f"(CASE WHEN {found.failed} THEN false ELSE {text} END)")
