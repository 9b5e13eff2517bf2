"""Queries separated into good rows and errors, against what Spark makes of each row alone."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyspark
import pytest
from support.joint_by_joint import QUICK
from support.random_expressions import COLUMNS, ROWS, alone, query
from support.torture import TORTURE

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.engines.pyspark.spark_home import minor
from rivet_dagster.model.row_errors import QUERY_COLUMNS, NotSeparable, RowErrors
from rivet_dagster.sql.evaluation.error_query import Place
from rivet_dagster.sql.evaluation.separation import separate

PLACE = Place("j", "joints/j.sql", 3)
OF_SPARK = {"REMAINDER_BY_ZERO": "DIVIDE_BY_ZERO"} if minor(pyspark.__version__) < (4, 1) else {}
"""What Spark 4.0 calls a condition that has a name of its own since."""


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
        yield from with_tables(session, folder)


@pytest.fixture
def usual_tables(session: PySparkSession, folder: str) -> Iterator[PySparkSession]:
    """Yield a session with Spark's usual settings, where queries are compiled, with the tables."""
    yield from with_tables(session, folder)


def with_tables(session: PySparkSession, folder: str) -> Iterator[PySparkSession]:
    """Yield the session with the tables t (its rows one by one: t1, t2...) and u, read from files as in a run."""
    spark = session.spark
    with session.views(), session.separating_errors():
        rows = spark.read.parquet(folder)
        session.register("t", rows)
        for row in range(1, len(ROWS) + 1):
            session.register(f"t{row}", rows.where(f"id = {row}"))
        session.register("u", spark.sql("SELECT * FROM VALUES (1, 0, 'one'), (3, 2, 'three') AS u(k, n, g)"))
        yield session


def separated(session: PySparkSession, sql: str) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the good rows and the errors of a query."""
    found = separate(sql, PLACE, ["id"])
    assert not isinstance(found, NotSeparable), found
    good = session.spark.sql(found.good if found is not None else sql)
    plain = session.spark.sql(sql)
    assert [(f.name, f.dataType) for f in good.schema] == [(f.name, f.dataType) for f in plain.schema]
    errors = [row.asDict() for text in (found.queries if found else ()) for row in session.spark.sql(text).collect()]
    assert all(tuple(error) == QUERY_COLUMNS for error in errors)
    return sorted((tuple(row) for row in good.collect()), key=repr), errors


@pytest.mark.parametrize("first", range(0, 60, 10) if TORTURE else [0])
def test_good_rows_and_errors_are_what_spark_makes_of_each_row_alone(tables: PySparkSession, first: int) -> None:
    assert compared(tables, range(first, first + 10)) >= 4


def test_they_are_the_same_where_spark_compiles_the_queries(usual_tables: PySparkSession) -> None:
    assert compared(usual_tables, range(60, 63)) >= 2


def compared(tables: PySparkSession, seeds: Iterable[int]) -> int:
    """Compare the random queries of some seeds; return how many of them Spark does not refuse."""
    count = 0
    for seed in seeds:
        sql = query(seed)
        expected = alone(tables, sql)
        if expected is None:
            continue
        good, errors = separated(tables, sql)
        assert repr(good) == repr(sorted((row for one in expected.values() for row in one.rows), key=repr)), sql
        codes: dict[int, list[str]] = {}
        for error in errors:
            code = OF_SPARK.get(error["code"], error["code"])
            codes.setdefault(json.loads(error["row"])["id"], []).append(code)
            assert error["message"], sql
        failing = {row: one.condition for row, one in expected.items() if one.condition is not None}
        assert set(codes) == set(failing), sql
        assert all(condition in codes[row] for row, condition in failing.items()), (sql, codes, failing)
        count += 1
    return count


def sites(errors: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the errors as the id of the row, the condition and the expression."""
    rows = [(json.loads(error["row"]), error) for error in errors]
    return Counter((row.get("id", row.get("t", {}).get("id")), e["code"], e["expression"]) for row, e in rows)


CAST, ZERO = "CAST_INVALID_INPUT", "DIVIDE_BY_ZERO"
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
        "SELECT id, transform(array(id, b), x -> 4 div x) AS v FROM t WHERE id IN (1, 7)",
        [(1, [4, 2])],
        [(7, ZERO, "transform(array(id, b), x -> 4 div x)")],
    ),
    "generators that cannot fail beside what can": (
        "SELECT CAST(s AS INT) AS v, explode(split(ds, '-')) AS part FROM t WHERE id < 3",
        [(3, "01"), (3, "01"), (3, "2024")],
        [(2, CAST, "CAST(s AS INT)")],
    ),
    "lambdas and subqueries that cannot fail": (
        "SELECT id, transform(xs, x -> x IS NULL) AS ys, (SELECT max(k) FROM u) AS k FROM t WHERE id = 1",
        [(1, [False, False], 3)],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(tables: PySparkSession, case: str) -> None:
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
    found = separate("SELECT CAST(s AS INT) AS v FROM t", Place("j"))
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
        ("SELECT sum(CAST(s AS INT)) FROM t", "name", 1),
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
        "SELECT t.*, u.g FROM t LEFT JOIN u ON t.id = u.k",
        "SELECT id FROM t EXCEPT SELECT k FROM u",
        "SELECT upper(s) AS s, try_cast(s AS INT) AS v, try_divide(id, b) AS r FROM t",
        "SELECT f, count(*) AS n, max(s) AS s FROM t GROUP BY f ORDER BY n DESC LIMIT 3",
        "SELECT id, row_number() OVER (PARTITION BY f ORDER BY id) AS n FROM t",
        "SELECT id, rand() AS r, current_date() AS today FROM t",
        "SELECT id + 1 AS n, rank() OVER (ORDER BY id) AS r FROM t ORDER BY r LIMIT 3",
        "SELECT sum(b), max(b) - min(b) FROM t",
        "SELECT b AS x, x + 1 AS y FROM t",
    ],
)
def test_what_cannot_fail_is_left_as_it_is(sql: str) -> None:
    assert separate(sql, PLACE) is None


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
