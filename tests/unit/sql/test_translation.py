"""Queries of Spark's SQL for DuckDB and Sail: names, types, lines of refusals, and what is never passed through."""

import duckdb
import pytest

from rivet_dagster.sql.parsing.known_query import spark_functions
from rivet_dagster.sql.translation import translate
from rivet_dagster.sql.translation.proven import support_of

TABLES = {
    "t": (("k", "int"), ("v", "int"), ("s", "string"), ("d", "double"), ("xs", "array<int>"), ("day", "date")),
    "u": (("k", "int"), ("w", "string")),
    "unknown": None,
}


def refused(sql: str, support: str = "duckdb") -> list[str]:
    """Return the constructs that are refused."""
    return [refusal.construct for refusal in translate(sql, support, TABLES).refusals]


@pytest.fixture
def database():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k INT, v INT, s TEXT, d DOUBLE, xs INT[], day DATE)")
        connection.execute(
            "INSERT INTO t VALUES (1, 2, 'a', 1.5, [1, 2], '2024-01-31'), (NULL, 0, NULL, NULL, [], NULL)"
        )
        connection.execute("CREATE TABLE u (k INT, w TEXT)")
        connection.execute("INSERT INTO u VALUES (1, 'x'), (3, 'y')")
        yield connection


ROWS = {
    "FROM t |> WHERE k > 0 |> SET v = k |> ORDER BY k, v |> LIMIT 3 |> SELECT k, v": [(1, 1)],
    "WITH t AS (SELECT k + 1 AS k FROM t) SELECT * FROM t WHERE k IS NOT NULL": [(2,)],
    "SELECT k AS a, a + 1 AS b FROM t WHERE k = 1": [(1, 2)],
    "SELECT * FROM t JOIN u USING (k)": [(1, 2, "a", 1.5, [1, 2], None, "x")],
    "SELECT -v AS v FROM t ORDER BY v": [(-2,), (0,)],
    "SELECT k FROM t ORDER BY k": [(None,), (1,)],
    "SELECT k FROM t ORDER BY k DESC": [(1,), (None,)],
    "SELECT K FROM T WHERE k = 1": [(1,)],
    "WITH RECURSIVE n AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM n WHERE k < 3) SELECT max(k) AS k FROM n": [(3,)],
    "SELECT 'it''s' AS a, 'b\\n' AS b, r'\\n' AS c, \"d\" AS d": [("it's", "b\n", "\\n", "d")],
    "SELECT k FROM t EXCEPT SELECT k FROM u INTERSECT SELECT 3 AS k ORDER BY k": [(None,), (1,)],
    "TABLE u ORDER BY k DESC LIMIT 1": [(3, "y")],
}


@pytest.mark.parametrize("sql", ROWS)
def test_queries_run_on_duckdb(sql, database):
    translation = translate(sql, "duckdb", TABLES)
    assert translation.refusals == ()
    rows = [
        tuple(None if hasattr(v, "year") else v for v in row) for row in database.execute(translation.sql).fetchall()
    ]
    assert rows == ROWS[sql]
    assert [name for name, *_ in database.description] == [name for name, _ in translation.columns]


REFUSALS = {
    "SELECT hash(k) AS h FROM t": "hash()",
    "SELECT my_function(k) AS h FROM t": "my_function()",
    "SELECT s + 1 AS x FROM t": "+(string, int)",
    "SELECT CAST(d AS STRING) AS x FROM t": "CAST of double to string",
    "SELECT k FROM t DISTRIBUTE BY k": "DISTRIBUTE BY",
    "SELECT k FROM t TABLESAMPLE (10 PERCENT)": "SAMPLE in FROM",
    "SELECT DISTINCT d FROM t": "DISTINCT of a value of the type double",
    "SELECT d FROM t GROUP BY d": "GROUP BY of a value of the type double",
    "SELECT k FROM t UNION SELECT w FROM u": "a set operation over int and string",
    "SELECT * FROM elsewhere": "the table elsewhere, which is none of the joints",
    "SELECT k FROM t WHERE s RLIKE '(?=a)'": "rlike(string, string)",
    "SELECT nvl(k, 1) FROM t": "an expression without a name",
    "SELECT k FROM t t1 JOIN u u1 ON t1.k = u1.k": "the ambiguous name k",
    "SELECT first(k) AS f FROM t": "first() without OVER",
    "SELECT '\\u0041' AS a": "text that holds an escape sequence",
    "SELECT NULL AS x": "a column of NULL without a type",
    "SELECT current_date() AS x": "current_date()",
    "SELECT sum(v) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t": "a frame of RANGE",
    "SELECT k FROM t LIMIT k": "LIMIT other than a number",
    "SELECT a + 1 AS b FROM unknown": "a, whose type is not known",
    "SELECT k FROM t; DROP TABLE t": "text that holds more than one statement",
    "SELECT k AS a, v AS a FROM t ORDER BY a": "ORDER BY the ambiguous name a",
}


@pytest.mark.parametrize("sql", REFUSALS)
def test_what_is_not_proven_is_refused_by_name(sql):
    (construct,) = refused(sql)
    assert construct.startswith(REFUSALS[sql])


def test_refusals_tell_the_line_and_whether_types_would_change_them():
    found = translate("SELECT\n  a + 1 AS b,\n  hash(a) AS h\nFROM unknown", "sail", TABLES).refusals
    assert [(refusal.line, refusal.certain) for refusal in found] == [(2, False), (3, False)] or [
        (refusal.line, refusal.certain) for refusal in found
    ] == [(2, False), (3, True)]


def test_a_column_of_a_refused_item_is_refused_once():
    sql = "SELECT h + 1 AS i FROM (SELECT hash(k) AS h FROM t) AS x"
    assert refused(sql) == ["hash()"]


def test_a_guard_of_an_aggregate_has_its_filter_and_window():
    tables = {"t": (("g", "int"), ("x", "decimal(32,4)"))}
    found = translate("SELECT g, sum(x) FILTER (WHERE g > 1) AS s FROM t GROUP BY g", "sail", tables)
    assert found.columns == (("g", "int"), ("s", "decimal(38,4)"))
    filtered = "FILTER(WHERE `t`.`g` > 1)"
    assert f"SUM(ABS(CAST(`t`.`x` AS DOUBLE))) {filtered} >= 9.9E33 THEN" in found.sql
    assert f"ELSE SUM(`t`.`x`) {filtered} END" in found.sql
    over = translate("SELECT sum(x) OVER (PARTITION BY g) AS s FROM t", "sail", tables).sql
    assert over.count("OVER (PARTITION BY `t`.`g`)") == 2


@pytest.mark.parametrize("support", ["duckdb", "sail"])
def test_a_filter_of_an_aggregate_over_a_window_is_refused_at_its_line(support):
    sql = "SELECT k,\n  count(*) FILTER (WHERE v > 1) OVER (PARTITION BY k) AS n\nFROM t"
    (refusal,) = translate(sql, support, TABLES).refusals
    assert (refusal.line, refusal.construct, refusal.certain) == (2, "FILTER with OVER", True)
    assert "CASE" in refusal.remedy
    assert refused("SELECT k, sum(CASE WHEN v > 1 THEN v END) OVER (PARTITION BY k) AS n FROM t") == []
    named = "SELECT k, sum(v) FILTER (WHERE v > 1) OVER w AS n FROM t WINDOW w AS (PARTITION BY k)"
    assert refused(named) == ["FILTER with OVER"]


def test_parameters_keep_their_names():
    translation = translate("SELECT k FROM t WHERE k > :low", "duckdb", TABLES, {"low": "int"})
    assert "$low" in translation.sql
    assert not translate("SELECT k FROM t WHERE k > :low", "duckdb", TABLES).refusals[0].certain


@pytest.mark.parametrize("support", ["duckdb", "sail"])
def test_each_name_of_a_list_is_one_of_spark(support):
    listed = support_of(support)
    names = {
        name.split()[0].removesuffix("_rows").removesuffix("_ignore_nulls")
        for s in listed.entries.values()
        for name in s
    }
    words = {name for name in names if name.isidentifier() and not name.startswith(("is_", "timestampdiff_"))}
    assert words - spark_functions() - {"and", "or", "not", "negative", "get", "nullif"} == set()
