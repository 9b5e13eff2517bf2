"""The difference of two relations: random pairs against DuckDB, types that Spark cannot compare, and one query."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from support.row_difference import expected, pairs, shown
from support.torture import examples

from rivet_dagster.execution.difference.rows import SAMPLES, Key, difference_of_rows, rows_of_new_table

EXAMPLES = examples(3, 120)


def difference(session, old, new, *keys, samples=SAMPLES):
    """Return the difference of two queries' rows, which is the same whether the keys are thought unique or not.

    It does not depend on whether the numbers of rows are known, or on whether they are right.
    """
    frames = session.query(old), session.query(new)
    rows = tuple(session.rows(f"SELECT COUNT(*) AS n FROM ({sql})")[0]["n"] for sql in (old, new))
    found, *others = (
        difference_of_rows(session, *frames, [Key(tuple(key), unique) for key in keys], samples, known)
        for unique, known in ((True, None), (False, None), (True, rows), (True, (rows[0], rows[1] + 1)))
    )
    assert others == [found] * 3
    return found


def test_random_pairs_have_the_difference_that_duckdb_finds(quick_session, request):
    session = quick_session

    @settings(max_examples=request.config.getoption("--examples") or EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(pairs())
    def compare(pair):
        note(f"{pair.old.to_pylist()} -> {pair.new.to_pylist()} by {pair.key}")
        old, new = frame(session, pair.old), frame(session, pair.new)
        keys = [Key(("missing",)), Key(pair.key, unique=True)] if pair.key else []
        found = difference_of_rows(session, old, new, keys)
        assert difference_of_rows(session, old, new, [Key(pair.key)] if pair.key else []) == found
        rows = pair.old.num_rows, pair.new.num_rows
        assert difference_of_rows(session, old, new, keys, rows=rows) == found
        wanted = expected(pair)
        assert (found.added, found.removed, found.changed) == (wanted.added, wanted.removed, wanted.changed)
        if wanted.columns is not None:
            assert {name.lower(): count for name, count in found.columns.items()} == wanted.columns
        assert tuple(name.lower() for name in found.key) == pair.key
        check_samples(pair, found, wanted)

    compare()


def frame(session, table):
    """Return the rows of a table; pyspark takes no empty one that has a column of lists."""
    if len(table):
        return session.from_value(table)
    nothing = pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})
    return session.from_value(nothing).limit(0)


def check_samples(pair, found, wanted):
    """The samples are rows that differ, none more often than it does."""
    samples = found.samples
    if not pair.compared:
        return
    assert len(samples.added) == min(found.added, SAMPLES)
    assert len(samples.removed) == min(found.removed, SAMPLES)
    assert len(samples.changed) == min(found.changed, SAMPLES)
    new = [*samples.added, *(row.new for row in samples.changed)]
    old = [*samples.removed, *(row.old for row in samples.changed)]
    for rows, only in ((new, wanted.only_new), (old, wanted.only_old)):
        assert texts(rows, pair) <= only


def texts(rows, pair) -> Counter[str]:
    """Return samples as texts, in the order of the compared columns."""
    lowered = [{name.lower(): value for name, value in row.items()} for row in rows]
    return shown([{name: parsed(row[name]) for name in pair.compared} for row in lowered])


def parsed(value):
    """Return the nested value that a sample shows as JSON, any other as it is."""
    nested = isinstance(value, str) and value[:1] in ("[", "{")
    return json.loads(value) if nested else value


def test_a_repeated_key_multiplies_no_rows(quick_session):
    old = "SELECT * FROM VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'x') AS t(id, v)"
    new = "SELECT * FROM VALUES (1, 'a'), (1, 'c'), (1, 'd'), (1, 'e'), (2, 'x') AS t(id, v)"
    found = difference(quick_session, old, new, ("id",))
    assert (found.added, found.removed, found.changed, found.columns) == (1, 0, 2, {"v": 2})
    assert [(row.old["v"], row.new["v"], row.columns) for row in found.samples.changed] == [
        ("a", "c", ("v",)),
        ("b", "d", ("v",)),
    ]
    assert found.samples.added == ({"id": 1, "v": "e"},)


def test_null_keys_match_null_keys(quick_session):
    found = difference(
        quick_session, "SELECT CAST(NULL AS INT) AS id, 1 AS v", "SELECT CAST(NULL AS INT) AS id, 2 AS v", ["id"]
    )
    assert (found.added, found.removed, found.changed) == (0, 0, 1)
    assert found.samples.changed[0].new == {"id": None, "v": 2}


def test_without_a_key_rows_are_a_multiset(quick_session):
    found = difference(quick_session, "SELECT 1 AS v", "SELECT EXPLODE(ARRAY(1, 1, 1, 2)) AS v")
    assert (found.added, found.removed, found.changed, found.key) == (3, 0, 0, ())
    assert sorted(row["v"] for row in found.samples.added) == [1, 1, 2]


TYPES = [
    ("map", "MAP('a', 1, 'b', 2)", "MAP('b', 2, 'a', 1)", "MAP('a', 1)"),
    ("nested map", "MAP(1, MAP('a', 1, 'b', 2))", "MAP(1, MAP('b', 2, 'a', 1))", "MAP(1, MAP('b', 2, 'a', 9))"),
    (
        "map in a struct in an array",
        "ARRAY(NAMED_STRUCT('a b', MAP(1, TIMESTAMP '2026-01-01 00:00:00.000001')))",
        "ARRAY(NAMED_STRUCT('a b', MAP(1, TIMESTAMP '2026-01-01 00:00:00.000001')))",
        "ARRAY(NAMED_STRUCT('a b', MAP(1, TIMESTAMP '2026-01-01 00:00:00.000002')))",
    ),
    ("variant", """PARSE_JSON('{"a": 1, "b": [2]}')""", """PARSE_JSON('{"b": [2], "a": 1}')""", "PARSE_JSON('1')"),
    ("map of variants", "MAP(1, PARSE_JSON('1'))", "MAP(1, PARSE_JSON('1'))", "MAP(1, PARSE_JSON('2'))"),
    (
        "null struct",
        "CAST(NULL AS STRUCT<m: MAP<INT, INT>>)",
        "CAST(NULL AS STRUCT<m: MAP<INT, INT>>)",
        "NAMED_STRUCT('m', CAST(NULL AS MAP<INT, INT>))",
    ),
    ("decimal", "1.10BD", "1.10BD", "1.11BD"),
    ("binary", "X'00'", "X'00'", "X'01'"),
    (
        "time zone",
        "TIMESTAMP_NTZ '2026-01-01 00:00:00'",
        "TIMESTAMP_NTZ '2026-01-01 00:00:00'",
        "TIMESTAMP_NTZ '2026-01-01 00:00:01'",
    ),
    ("interval", "INTERVAL '1' DAY", "INTERVAL '1' DAY", "INTERVAL '2' DAY"),
]
"""Kinds of values, one of them, the same written otherwise, and another one."""


def test_values_of_each_type_are_compared(quick_session):
    kinds = [kind for kind, *_ in TYPES]
    one, same, other = (
        [f"{value} AS `{kind}`" for kind, value in zip(kinds, values, strict=True)]
        for values in list(zip(*TYPES, strict=True))[1:]
    )
    rows = "SELECT 1 AS id, {} UNION ALL SELECT 2, {}"
    old, new = (rows.format(", ".join(first), ", ".join(second)) for first, second in ((one, one), (same, other)))
    found = difference(quick_session, old, new, ("id",))
    assert found.columns == dict.fromkeys(kinds, 1)
    assert (found.added, found.removed, found.changed) == (0, 0, 1)
    assert found.samples.changed[0].columns == tuple(kinds)


def test_a_column_that_cannot_be_compared_is_told(quick_session):
    rows = "SELECT {} AS id, MAKE_INTERVAL(1) AS span"
    found = difference(quick_session, rows.format(1), rows.format(2), ("id",))
    assert (found.added, found.removed, found.changed, found.columns) == (1, 1, 0, {"span": None})


def test_names_of_any_kind(quick_session):
    rows = "SELECT 1 AS `side`, 2 AS `net.total`, {} AS `a``b `, 'x' AS `c0`"
    found = difference(quick_session, rows.format(1), rows.format(2), ("side", "net.total"))
    assert (found.changed, found.columns) == (1, {"a`b ": 1})


def test_versions_without_a_common_column(quick_session):
    found = difference(quick_session, "SELECT 1 AS a", "SELECT EXPLODE(ARRAY(1, 2, 3)) AS b")
    assert (found.added, found.removed, found.changed, found.columns) == (2, 0, 0, {})
    assert found.samples.added == ()


def test_one_query_for_each_table(quick_session, sql_executions):
    old, new = (
        quick_session.query("SELECT id FROM RANGE(100)"),
        quick_session.query("SELECT id * 2 AS id FROM RANGE(100)"),
    )
    sql_executions.since()
    found = difference_of_rows(quick_session, old, new, [Key(("id",), unique=True)])
    assert sql_executions.since() == 1
    assert (found.added, found.removed, found.changed) == (50, 50, 0)


def test_the_rows_that_differ_are_computed_once(session):
    """The counts and the samples of each kind read them; Spark would else compare the tables for each of these."""
    from rivet_dagster.execution.difference.rows import typed_columns_of
    from rivet_dagster.sql.row_difference.columns import NEW, OLD, compared_columns
    from rivet_dagster.sql.row_difference.query import difference_by_unique_key

    spark = session.spark
    old, new = (spark.range(1000).selectExpr("id", f"id % {n} AS v") for n in (7, 8))
    for name, frame in ((OLD, old), (NEW, new)):
        session.register(name, frame)
    columns = compared_columns(typed_columns_of(session, old), typed_columns_of(session, new))
    frame = session.query(difference_by_unique_key(columns, ("id",), 10))
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().executedPlan().toString()  # as it was adapted
    # What the join finds is read again by the samples of each kind.
    assert plan.count("FullOuter") == 1
    assert plan.count("ReusedExchange") == 3


def test_no_values_are_read_without_samples(quick_session):
    found = difference(
        quick_session, "SELECT 1 AS id, 'secret' AS v", "SELECT 1 AS id, 'other' AS v", ("id",), samples=0
    )
    assert found.changed == 1
    assert not found.samples.changed


def test_a_new_table(quick_session, sql_executions):
    new = quick_session.query("SELECT MAP(DATE '2026-01-02', 1) AS m FROM RANGE(20)")
    found = rows_of_new_table(quick_session, new, 20)
    assert (found.added, len(found.samples.added)) == (20, 10)
    assert found.samples.added[0] == {"m": '{"2026-01-02": 1}'}
    sql_executions.since()
    assert rows_of_new_table(quick_session, new, 20, samples=0).added == 20
    assert sql_executions.since() == 0
