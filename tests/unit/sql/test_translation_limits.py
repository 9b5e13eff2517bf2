"""What depends on the form of a query: nesting, many items, windows, times, recursion and correlated queries."""

import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import rivet_dagster.sql.translation
from rivet_dagster.sql.translation import translate

TABLES = {
    "t": (("k", "int"), ("v", "int"), ("s", "string"), ("day", "date"), ("made", "timestamp")),
    "u": (("k", "int"), ("w", "string")),
}
PACKAGE = str(Path(rivet_dagster.sql.translation.__file__).parent)


def refused(sql: str, support: str = "duckdb") -> list[str]:
    """Return the constructs that are refused."""
    return [refusal.construct for refusal in translate(sql, support, TABLES).refusals]


def nested(depth: int) -> str:
    """Return calls within each other of a function whose template repeats its argument several times."""
    return f"SELECT {'substring(' * depth}s{', k, v)' * depth} AS x FROM t"


def test_templates_that_repeat_each_other_are_refused_before_they_fill_the_memory():
    assert refused(nested(2)) == []
    assert len(translate(nested(2), "duckdb", TABLES).sql) < 100_000
    assert refused(nested(12)) == ["functions nested this deep"]
    assert translate(nested(12), "duckdb", TABLES).refusals[0].remedy == "Compute a part of it in a query before."


def calls(sql: str) -> int:
    """Return how many calls of functions of the package a translation makes."""
    counted: Counter[str] = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            counted["calls"] += 1

    sys.setprofile(count)
    try:
        assert translate(sql, "duckdb", TABLES).refusals == ()
    finally:
        sys.setprofile(None)
    return counted["calls"]


@pytest.mark.slow
def test_twice_as_many_casts_take_twice_as_many_calls():
    few, many = (
        calls(f"SELECT {', '.join(f'CAST(k AS BIGINT) AS c{n}' for n in range(number))} FROM t")
        for number in (300, 600)
    )
    assert few > 300
    assert many < 2.1 * few


@pytest.mark.parametrize(
    ("offset", "is_read"), [("+17:59", True), ("-18:00", True), ("+18:00", True), ("+18:01", False), ("-19:00", False)]
)
def test_offsets_of_times_end_at_18_hours_as_those_of_java(offset, is_read):
    sql = f"SELECT TIMESTAMP '2024-07-01 12:30:00{offset}' AS x"
    assert (refused(sql, "sail") == []) is is_read
    with duckdb.connect() as connection:
        relation = connection.sql(translate(sql, "duckdb", TABLES).sql)
        if is_read:
            assert len(relation.fetchall()) == 1
        else:
            with pytest.raises(duckdb.Error, match="RVT-329"):
                relation.fetchall()


OVER = {
    "row_number() OVER (ORDER BY CAST(s AS DATE))": "OVER with an expression of type date that may fail",
    "row_number() OVER (ORDER BY CAST(s AS TIMESTAMP) DESC)": "OVER with an expression of type timestamp that may fail",
    "max(k) OVER (PARTITION BY date_add(day, k))": "OVER with an expression of type date that may fail",
    "max(k) OVER (PARTITION BY upper(s) ORDER BY k % v)": None,
    "max(k) OVER (PARTITION BY CAST(s AS BOOLEAN), CAST(s AS INT))": None,
    "max(k) OVER (PARTITION BY day ORDER BY made)": None,
}


@pytest.mark.parametrize("window", OVER)
def test_a_key_of_over_that_may_fail_is_no_time_on_duckdb(window):
    sql = f"SELECT {window} AS x FROM t"
    assert refused(sql) == ([OVER[window]] if OVER[window] else [])
    if OVER[window] is None:
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t (k INT, v INT, s TEXT, day DATE, made TIMESTAMPTZ)")
            assert connection.sql(translate(sql, "duckdb", TABLES).sql).fetchall() == []


RECURSIVE = "WITH RECURSIVE n AS ({start} UNION ALL {step}) SELECT * FROM n"


@pytest.mark.parametrize(
    ("start", "step", "construct"),
    [
        ("SELECT 1 AS k", "SELECT k + 1 FROM n WHERE k < 3", None),
        ("SELECT 1 AS k", "SELECT a.k FROM n a JOIN n b ON a.k = b.k", "a recursive query whose step reads it more"),
        ("SELECT 1 AS k", "(SELECT k + 1 FROM n LIMIT 1)", "a recursive query whose step has ORDER BY, LIMIT"),
        ("SELECT 1 AS k", "SELECT 'a' FROM n", "a recursive query whose step has other types"),
    ],
)
def test_sail_has_a_fixed_number_of_levels_of_a_recursive_query(start, step, construct):
    sql = RECURSIVE.format(start=start, step=step)
    if construct is not None:
        (told,) = refused(sql, "sail")
        assert told.startswith(construct)
        return
    text = translate(sql, "sail", TABLES).sql
    assert "RECURSIVE" not in text
    assert text.count("UNION ALL") == 8
    assert "RVT-329" in text
    assert "RECURSIVE" in translate(sql, "duckdb", TABLES).sql


SUBQUERIES = {
    "SELECT k, (SELECT max(w) FROM u WHERE u.k = t.k) AS w FROM t": None,
    "SELECT k FROM t WHERE v > (SELECT count(*) FROM u WHERE u.k = t.k)": None,
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k > t.k)": None,
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)": None,
    "SELECT k FROM t WHERE (k IN (SELECT u.k FROM u WHERE u.w = t.s)) AND v > 1": None,
    "SELECT t.k, l.w FROM t, LATERAL (SELECT max(w) AS w, min(w) AS v FROM u WHERE u.k = t.k) AS l": None,
    "SELECT k, (SELECT max(w) FROM u WHERE u.k > t.k) AS w FROM t": "a correlated query as a value other than",
    "SELECT k, (SELECT w FROM u WHERE u.k = t.k) AS w FROM t": "a correlated query as a value other than",
    "SELECT k, (SELECT max(u.k + t.k) FROM u WHERE u.k = t.k) AS w FROM t": "a correlated query as a value whose outer",
    "SELECT k FROM t WHERE EXISTS (SELECT max(w) FROM u WHERE u.k = t.k)": "EXISTS of an aggregate",
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.w = t.s)": "NOT IN a correlated query",
    "SELECT k IN (SELECT k FROM u) AS x FROM t": "IN a query outside of WHERE",
    "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM u AS w WHERE w.k = t.k)": "a query in ON",
    "SELECT t.k, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k) AS l": "LATERAL with a correlated query other",
}


@pytest.mark.parametrize("sql", SUBQUERIES)
def test_forms_of_correlated_queries_that_sail_does_not_plan_are_refused(sql):
    assert refused(sql) == []
    found = refused(sql, "sail")
    expected = SUBQUERIES[sql]
    assert [construct[: len(expected or "")] for construct in found] == ([] if expected is None else [expected])


def test_groups_of_no_rows_are_left_out_as_spark_does():
    sql = "SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k) HAVING max(v) IS NULL"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, v INT)")
        assert connection.sql(translate(sql, "duckdb", TABLES).sql).fetchall() == []
        connection.execute("INSERT INTO t VALUES (1, NULL)")
        assert sorted(connection.sql(translate(sql, "duckdb", TABLES).sql).fetchall(), key=str) == [(1, 1), (None, 1)]


def test_a_set_operation_beside_a_recursive_query_is_not_recursive():
    sql = (
        "WITH RECURSIVE n AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM n WHERE k < 3), "
        "m AS (SELECT k FROM n UNION SELECT 7 AS k ORDER BY k LIMIT 2) SELECT sum(k) AS k FROM m"
    )
    with duckdb.connect() as connection:
        assert connection.sql(translate(sql, "duckdb", {}).sql).fetchall() == [(3,)]
