"""Queries separated into good rows and errors, against what Spark makes of each row alone."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pyspark
import pytest
from support.joint_by_joint import QUICK
from support.random_expressions import COLUMNS, ROWS, alone, query, wide_query
from support.separated import PLACE, compared_queries, separated, with_tables
from support.spark import WITH_CODE
from support.torture import TORTURE, examples

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.engines.pyspark.spark_home import minor
from rivet_dagster.model.row_errors import NotSeparable, RowErrors
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate


@pytest.fixture(scope="module")
def folder(application: PySparkEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder with the rows of t."""
    folder = str(tmp_path_factory.mktemp("separation") / "t")
    with application.session() as session:
        rows = session.spark.sql(f"SELECT * FROM VALUES {', '.join(ROWS)} AS t({COLUMNS})")
        rows.repartition(1).write.parquet(folder)
    return folder


@pytest.fixture(scope="module")
def tables(application: PySparkEngine, folder: str) -> Iterator[PySparkSession]:
    """Yield a session for small queries, with the tables."""
    with application.session() as session:
        for name, value in QUICK.items():
            session.spark.conf.set(name, value)
        with with_tables(session, session.spark.read.parquet(folder)) as ready:
            yield ready


@pytest.fixture
def usual_tables(session: PySparkSession, folder: str) -> Iterator[PySparkSession]:
    """Yield a session with Spark's usual settings, where queries are compiled, with the tables."""
    for name, value in WITH_CODE.items():
        session.spark.conf.set(name, value)
    with with_tables(session, session.spark.read.parquet(folder)) as ready:
        yield ready


@pytest.mark.parametrize("first", range(0, 60, 10) if TORTURE else [0])
def test_good_rows_and_errors_are_what_spark_makes_of_each_row_alone(tables: PySparkSession, first: int) -> None:
    number = 10 if TORTURE else 5
    assert compared(tables, range(first, first + number)) >= 0.4 * number


@pytest.mark.nightly
def test_they_are_the_same_where_spark_compiles_the_queries(usual_tables: PySparkSession) -> None:
    assert compared(usual_tables, range(60, 63)) >= 2


@pytest.mark.parametrize("width", [12, *([100, 300] if TORTURE else [])])
def test_queries_of_many_expressions(tables: PySparkSession, width: int) -> None:
    assert compared_queries(tables, [wide_query(tables, width, width)]) == 1


OUTER = (
    "SELECT x.id, x.v, u.g FROM {} AS x JOIN u ON x.id = u.k",
    "SELECT u.k, x.v FROM u LEFT JOIN u AS w ON u.k = w.k CROSS JOIN {} AS x",
    "SELECT id, v FROM {} UNION ALL SELECT k, NULL FROM u",
    "SELECT count(*) AS n, count(v) AS vs, max(id) AS last FROM {}",
    "SELECT id % 2 AS k, count(v) AS n FROM {} GROUP BY id % 2",
    "SELECT id, v, row_number() OVER (ORDER BY id DESC) AS n FROM {}",
    "WITH y AS (SELECT id, v FROM {}), z AS (SELECT * FROM y WHERE id > 2) SELECT z.id, v FROM z SEMI JOIN u ON id = k",
)
"""Queries that cannot fail, over the rows of another one."""


@pytest.mark.nightly
def test_joins_unions_aggregates_and_windows_see_the_good_rows(tables: PySparkSession) -> None:
    """And tell all errors of what they read, those of rows that they leave out, too."""
    tried, seeds = 0, count(100)
    while tried < examples(1, 40):
        sql = query(next(seeds))
        expected = alone(tables, sql)
        if expected is None:
            continue
        rows = [row for one in expected.values() for row in one.rows]
        tables.register("held", tables.spark.createDataFrame(rows, tables.spark.sql(sql).schema))
        failing = {row for row, one in expected.items() if one.condition is not None}
        for outer in OUTER:
            good, errors = separated(tables, outer.format(f"({sql})"))
            plain = tables.spark.sql(outer.format("held")).collect()
            assert repr(good) == repr(sorted(map(tuple, plain), key=repr)), (outer, sql)
            assert {json.loads(error["row"])["id"] for error in errors} == failing, (outer, sql)
        tried += bool(failing)


def compared(tables: PySparkSession, seeds: Iterable[int]) -> int:
    """Compare the random queries of some seeds; return how many of them Spark does not refuse."""
    return compared_queries(tables, map(query, seeds))


def sites(errors: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the errors as the id of the row, the condition and the expression."""
    rows = [(json.loads(error["row"]), error) for error in errors]
    return Counter((row.get("id", row.get("t", {}).get("id")), e["code"], e["expression"]) for row, e in rows)


CAST, ZERO = "CAST_INVALID_INPUT", "DIVIDE_BY_ZERO"
OF_INTERVALS = "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION"
GREATEST = """VALUES
  (1, 1, 9223372036854775807L, 99999999999999999999999999999999999999BD, INTERVAL '106751990' DAY),
  (1, 2, 9223372036854775807L, 99999999999999999999999999999999999999BD, INTERVAL '106751990' DAY),
  (2, 1, 5L, 2BD, INTERVAL '1' DAY), (3, 1, NULL, NULL, NULL) AS o(id, n, v, d, i)"""
NOT_INT = {(2, CAST), (4, CAST), (6, CAST), (7, CAST)}
CASES = {
    "all sites of a row": (
        "SELECT id, CAST(s AS INT) AS v, id / b AS r FROM t WHERE id = 7",
        [],
        [(7, CAST, "CAST(s AS INT)"), (7, ZERO, "id / b")],
    ),
    "operands before operators": (
        "SELECT id, CAST(s AS INT) / b AS v FROM t WHERE id IN (2, 7)",
        [],
        [(2, CAST, "CAST(s AS INT)"), (7, CAST, "CAST(s AS INT)")],
    ),
    "lazy branches": (
        "SELECT id, CASE WHEN b = 0 THEN 0 ELSE id div b END AS v FROM t WHERE id IN (1, 7)",
        [(1, 0), (7, 0)],
        [],
    ),
    "a condition that is not true drops the row": (
        "SELECT id FROM t WHERE CAST(s AS INT) > 2 AND id < 3",
        [(1,)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "an OR is one condition": (
        "SELECT id FROM t WHERE id = 1 OR CAST(s AS INT) = 12",
        [(1,), (5,)],
        [(row, CAST, "CAST(s AS INT)") for row in (2, 4, 6, 7)],
    ),
    "a bad row takes its group out": (
        "SELECT f, sum(CAST(s AS INT)) AS v, count(*) AS n FROM t WHERE id <> 4 AND id <> 7 GROUP BY f",
        [(None, 12, 2), (True, 3, 1)],
        [(2, CAST, "CAST(s AS INT)"), (6, CAST, "CAST(s AS INT)")],
    ),
    "a global aggregate has no row": (
        "SELECT sum(CAST(s AS INT)) AS v FROM t WHERE id < 3",
        [],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "an aggregate over nothing has one": ("SELECT sum(CAST(s AS INT)) AS v FROM t WHERE id > 9", [(None,)], []),
    "only filtered rows are evaluated": (
        "SELECT sum(CAST(s AS INT)) FILTER (WHERE id = 1) AS v FROM t",
        [(3,)],
        [],
    ),
    "a bad key": (
        "SELECT CAST(s AS INT) AS k, count(*) AS n FROM t WHERE id IN (1, 2, 5) GROUP BY CAST(s AS INT)",
        [(3, 1), (12, 1)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "a bad key that is not selected": (
        "SELECT count(*) AS n FROM t WHERE id IN (1, 2, 5) GROUP BY CAST(s AS INT)",
        [(1,), (1,)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "HAVING": (
        "SELECT f, count(*) AS n FROM t GROUP BY f HAVING sum(id) / (count(*) - 3) > 0",
        [],
        [(None, ZERO, "sum(id) / (count(*) - 3)")],
    ),
    "a join key, matched or not": (
        "SELECT t.id, u.g FROM t JOIN u ON CAST(t.s AS INT) = u.k",
        [(1, "three")],
        [(row, CAST, "CAST(t.s AS INT)") for row in (2, 4, 6, 7)],
    ),
    "a condition of a join": (
        "SELECT t.id FROM t JOIN u ON t.id = u.k AND t.id / u.n > 1",
        [(3,)],
        [(1, ZERO, "t.id / u.n")],
    ),
    "windows count bad rows of their operator": (
        "SELECT id, CAST(s AS INT) AS v, row_number() OVER (ORDER BY id) AS n FROM t WHERE id < 4",
        [(1, 3, 1), (3, None, 3)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "errors below are errors": (
        "WITH x AS (SELECT id, CAST(s AS INT) AS v FROM t) "
        "SELECT id, 10 / v AS w FROM (SELECT * FROM x WHERE id < 6) ORDER BY id LIMIT 1",
        [(1, 10 / 3)],
        [(row, CAST, "CAST(s AS INT)") for row in (2, 4, 6, 7)],
    ),
    "set operations": (
        "SELECT id, b AS v FROM t WHERE id = 1 UNION ALL SELECT id, CAST(s AS INT) AS v FROM t WHERE id < 3",
        [(1, 2), (1, 3)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "what only some types make fail is left as it is where it would be refused": (
        "SELECT CAST(s AS INT) AS v, v + 1 AS w, sum(id) OVER (ORDER BY id) AS n FROM t WHERE id < 4",
        [(3, 4, 1), (None, None, 6)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "lambdas": (
        "SELECT id, transform(array(id, b), x -> 4 div x) AS v,\n"
        "transform(array(array(id, b)), ys -> transform(ys, y -> exists(ys, z -> z > 4 div y))) AS w "
        "FROM t WHERE id IN (1, 7)",
        [(1, [4, 2], [[False, False]])],
        [
            (7, ZERO, "transform(array(id, b), x -> 4 div x)"),
            (7, ZERO, "transform(array(array(id, b)), ys -> transform(ys, y -> exists(ys, z -> z > 4 div y)))"),
        ],
    ),
    "generators that cannot fail beside what can": (
        "SELECT CAST(s AS INT) AS v, explode(split(ds, '-')) AS part FROM t WHERE id < 3",
        [(3, "01"), (3, "01"), (3, "2024")],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "raw strings, and paths into JSON": (
        r"SELECT id, regexp_extract(s, r'\d+', 0) AS n, get_json_object(ds, '$.a') AS j, CAST(s AS INT) AS v "
        "FROM t WHERE id < 3",
        [(1, "3", None, 3)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "variant paths": (
        r"SELECT id, try_parse_json(concat('[\"', s, '\"]')):[0]::INT AS v FROM t WHERE id < 3",
        [(1, 3)],
        [(2, "INVALID_VARIANT_CAST", r"""try_parse_json(concat('[\"', s, '\"]')):[0]::INT""")],
    ),
    "a lambda whose parameter has the name of an alias": (
        "SELECT id AS x, transform(array(s), X -> CAST(x AS INT)) AS v FROM t WHERE id < 3",
        [(1, [3])],
        [(2, CAST, "transform(array(s), X -> CAST(x AS INT))")],
    ),
    "an expression without a name beside a window": (
        "SELECT id, CAST(s AS INT), row_number() OVER (ORDER BY id) FROM t WHERE id < 4",
        [(1, 3, 1), (3, None, 3)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "a condition beside a window": (
        "SELECT id, 4 div b AS v, count(*) OVER w AS n FROM t WHERE CAST(s AS INT) > 0 OR b = 0 "
        "WINDOW w AS (ORDER BY id)",
        [(1, 2, 1), (5, 1, 3)],
        [(row, CAST, "CAST(s AS INT)") for row in (2, 4, 6, 7)] + [(3, ZERO, "4 div b")],
    ),
    "aggregates without names": (
        "SELECT f, sum(CAST(s AS INT)), count(*) FROM t WHERE id < 4 GROUP BY f",
        [(None, None, 1), (True, 3, 1)],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "a sum of a group overflows": (
        f"SELECT id, sum(v), count(*) AS n FROM {GREATEST} GROUP BY id",
        [(2, 5, 1), (3, None, 1)],
        [(1, "ARITHMETIC_OVERFLOW", "sum(v)")],
    ),
    "sums of decimals and intervals overflow": (
        f"SELECT id, sum(d) AS d, avg(d) AS e, sum(i) / 2 AS i FROM {GREATEST} GROUP BY id HAVING avg(i) IS NULL",
        [(3, None, None, None)],
        [
            (1, "ARITHMETIC_OVERFLOW", "sum(d)"),
            (1, "ARITHMETIC_OVERFLOW", "avg(d)"),
            (1, OF_INTERVALS, "sum(i)"),
            (1, OF_INTERVALS, "avg(i)"),
        ],
    ),
    "an average that is no DECIMAL though the sum is one": (
        f"SELECT id, avg(DISTINCT d) AS d, sum(DISTINCT v) AS v FROM {GREATEST} GROUP BY id",
        [(2, 2, 5), (3, None, None)],
        [(1, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "avg(DISTINCT d)")],
    ),
    "only filtered values are added up": (
        f"SELECT id, sum(v) FILTER (WHERE n = 1) AS v FROM {GREATEST} GROUP BY id",
        [(1, 9223372036854775807), (2, 5), (3, None)],
        [],
    ),
    "a sum over a window overflows": (
        f"SELECT id, n, sum(v) OVER (PARTITION BY id ORDER BY n) AS v, avg(d) OVER () AS d FROM {GREATEST}",
        [],
        [
            (1, "ARITHMETIC_OVERFLOW", "sum(v) OVER (PARTITION BY id ORDER BY n)"),
            *[(row, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "avg(d) OVER ()") for row in (1, 1, 2, 3)],
        ],
    ),
    "the sum of a window around each row": (
        f"SELECT id, n, sum(v) OVER (PARTITION BY id ORDER BY n) AS v FROM {GREATEST}",
        [(1, 1, 9223372036854775807), (2, 1, 5), (3, 1, None)],
        [(1, "ARITHMETIC_OVERFLOW", "sum(v) OVER (PARTITION BY id ORDER BY n)")],
    ),
    "a key of a join that Spark casts": (
        "SELECT t.id, u.g FROM t JOIN u ON t.s = u.k",
        [(1, "three")],
        [(row, CAST, "t.s = u.k") for row in (2, 6, 7)],
    ),
    "a key on the other side": (
        "SELECT x.id, y.id AS other FROM u AS z JOIN t AS x ON x.id = z.k JOIN t AS y ON x.m = y.s WHERE x.id < 3",
        [],
        [(row, CAST, "x.m = y.s") for row in (2, 7)],
    ),
    "constants that fail do so for every row": (
        "SELECT id, a + 1 / 0 AS v, CAST('x' AS INT), f AND 1 / 0 > 1 AS w FROM t WHERE id < 3",
        [],
        [(row, *site) for row in (1, 2) for site in ((ZERO, "1 / 0"), (CAST, "CAST('x' AS INT)"), (ZERO, "1 / 0"))],
    ),
    "constants that fail in branches do so for the rows that reach them": (
        "SELECT id, CASE WHEN b > 2 THEN 1 / 0 ELSE a END AS v FROM t WHERE id < 4 AND (id = 1 OR 1 / 1 > 0)",
        [(1, 1), (3, None)],
        [(2, ZERO, "1 / 0")],
    ),
    "constants that fail in groups and conditions": (
        "SELECT f, sum(1 / 0) AS v FROM t WHERE id < 3 AND id > CAST('1' AS INT) GROUP BY f",
        [],
        [(2, ZERO, "1 / 0")],
    ),
    "lambdas and subqueries that cannot fail": (
        "SELECT id, transform(xs, x -> x IS NULL) AS ys, (SELECT max(k) FROM u) AS k FROM t WHERE id = 1",
        [(1, [False, False], 3)],
        [],
    ),
}


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("case", CASES)
def test_rules(tables: PySparkSession, case: str) -> None:
    if case == "variant paths" and minor(pyspark.__version__) < (4, 1):
        pytest.skip("Spark has this from 4.1 on")
    sql, rows, errors = CASES[case]
    good, found = separated(tables, sql)
    assert good == sorted(rows, key=repr)
    assert sites(found) == Counter(errors)


def test_an_error_tells_its_place_its_row_and_its_key(tables: PySparkSession) -> None:
    _, errors = separated(tables, "SELECT id,\n  CAST(s -- text\n    AS INT) AS v\nFROM t WHERE id = 2")
    (error,) = errors
    assert (error["joint"], error["file"], error["line"]) == ("j", "joints/j.sql", 4)
    assert error["expression"] == "CAST(s AS INT)"
    assert "'x'" in error["message"]
    row = json.loads(error["row"])
    assert (row["s"], row["b"]) == ("x", 5)
    assert json.loads(error["key"]) == {"id": 2}


def test_a_query_without_a_file_has_no_place(tables: PySparkSession) -> None:
    found = separate("SELECT CAST(s AS INT) AS v FROM t", QueryLocation("j"))
    assert isinstance(found, RowErrors)
    (text,) = found.queries
    frame = tables.spark.sql(text)
    assert dict(frame.dtypes)["file"] == "string"
    assert {(row.file, row.line) for row in frame.collect()} == {(None, None)}


def test_a_row_of_a_join_tells_both_sides(tables: PySparkSession) -> None:
    _, errors = separated(tables, "SELECT x.id, x.id / u.n AS v FROM t x JOIN u ON x.id = u.k")
    assert [sorted(json.loads(error["row"])) for error in errors] == [["u", "x"]]


@pytest.mark.parametrize(
    ("sql", "construct", "line"),
    [
        ("SELECT *\nFROM t LEFT JOIN u\nON CAST(t.s AS INT) = u.k", "outer", 3),
        ("SELECT * FROM t LEFT JOIN (SELECT CAST(s AS INT) AS k FROM t) x ON t.id = x.k", "outer", 1),
        ("SELECT id FROM t EXCEPT SELECT CAST(s AS INT) FROM t", "EXCEPT", 1),
        ("SELECT id FROM t INTERSECT SELECT CAST(s AS INT) FROM t", "INTERSECT", 1),
        ("SELECT id FROM t WHERE id NOT IN (SELECT CAST(s AS INT) FROM t)", "subquery", 1),
        ("SELECT id, (SELECT max(k) FROM u) / b AS v FROM t", "subquery", 1),
        ("SELECT id, sum(CAST(s AS INT)) OVER (ORDER BY id) AS v FROM t", "window", 1),
        ("SELECT id, explode(array(CAST(s AS INT))) AS v FROM t", "generator", 1),
        ("SELECT id FROM t ORDER BY CAST(s AS INT)", "ORDER BY", 1),
        ("SELECT CAST(s AS INT) AS v,\n v / 2 AS w FROM t", "alias", 2),
        ("SELECT id, my_udf(s) AS v FROM t", "my_udf", 1),
        ("SELECT id, CAST(rand() * b AS INT) / b AS v FROM t", "rand", 1),
        ("SELECT sum(CAST(s AS INT)) FROM t LIMIT 1", "name", 1),
        ("SELECT f, sum(CAST(s AS INT)) AS v FROM t GROUP BY f ORDER BY sum(b)", "ORDER BY of an aggregate", 1),
        ("SELECT id, My_Udf (s) AS v FROM t", "the function My_Udf", 1),
        ("SELECT count(*) FILTER (WHERE CAST(s AS INT) > 0) AS n FROM t", "FILTER", 1),
        ("FROM t |> SELECT CAST(s AS INT) AS v", "pipe", 1),
    ],
)
def test_what_is_refused(sql: str, construct: str, line: int) -> None:
    found = separate(sql, PLACE)
    assert isinstance(found, NotSeparable)
    assert construct.lower() in found.construct.lower()
    assert found.line == line


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.*, u.g FROM t LEFT JOIN u ON t.id = '3' AND u.g LIKE 'x%'",
        "SELECT id FROM t EXCEPT SELECT k FROM u",
        "SELECT upper(s) AS s, try_cast(s AS INT) AS v, try_divide(id, b) AS r FROM t",
        "SELECT f, count(*) AS n, max(s) AS s FROM t GROUP BY f ORDER BY n DESC LIMIT 3",
        "SELECT id, row_number() OVER (PARTITION BY f ORDER BY id) AS n FROM t",
        "SELECT id, rand() AS r, current_date() AS today FROM t",
        "SELECT id + 1 AS n, rank() OVER (ORDER BY id) AS r FROM t ORDER BY r LIMIT 3",
        "SELECT sum(CASE WHEN f THEN 1 ELSE 0 END), sum(-1), max(b) FROM t ORDER BY max(b)",
        "SELECT b AS x, x + 1 AS y FROM t",
    ],
)
def test_what_cannot_fail_is_left_as_it_is(sql: str) -> None:
    assert separate(sql, PLACE) is None


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("WITH x AS (SELECT * FROM t)\nSELECT x.id FROM x LEFT JOIN u\nON x.id > 3 AND x.s = u.k", 3),
        ("SELECT y.id FROM t AS y SEMI JOIN u ON y.s = u.k", 1),
        ("SELECT id FROM t EXCEPT SELECT t.id FROM t JOIN u ON t.s = u.k", 1),
        ("SELECT id FROM t JOIN u ON s = k", 1),
        ("SELECT id FROM t JOIN (SELECT k AS s, g FROM u) USING (s)", 1),
        ("SELECT id FROM t NATURAL LEFT JOIN (SELECT k AS s FROM u)", 1),
    ],
)
def test_keys_of_joins_whose_types_decide_are_compared_later(tables: PySparkSession, sql: str, line: int) -> None:
    found = separate(sql, PLACE)
    assert isinstance(found, RowErrors)
    assert (found.queries, found.proof, [one.line for one in found.compared]) == ((), "always", [line])
    assert found.good == sql
    (compared,) = found.compared
    left, right = (tables.columns(tables.query(text)) for text in (compared.left, compared.right))
    assert {"s", "value"} & {name.lower() for name, kind in left if kind.lower() == "string"}
    assert {kind.lower() for _, kind in right} == {"int"}


def test_the_error_of_a_join_tells_the_key_where_it_is_of_the_failing_row(tables: PySparkSession) -> None:
    joined = "FROM (SELECT * FROM t WHERE id = 2) AS t JOIN u ON CAST(t.s AS INT) = u.k"
    for sql, key in [(f"SELECT t.id, u.g {joined}", '{"id":2}'), (f"SELECT u.k AS id, t.b {joined}", None)]:
        _, (error,) = separated(tables, sql)
        assert (json.loads(error["row"])["id"], error["key"]) == (2, key), sql


def test_types_that_fit_cost_nothing(tables: PySparkSession) -> None:
    """A comparison is guarded only against strings: of numbers, Spark's plan is that of the plain query."""
    sql = "SELECT id FROM t WHERE a > 1 AND s = 'x'"
    found = separate(sql, PLACE)
    assert isinstance(found, RowErrors)

    def scan(text: str) -> str:
        plan = str(tables.spark.sql(f"EXPLAIN {text}").collect()[0][0])
        return plan.partition("PushedFilters: ")[2].partition("]")[0]

    assert scan(found.good) == scan(sql)
    assert "GreaterThan(a,1)" in scan(sql)
