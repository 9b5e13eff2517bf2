"""Each SQL construct that fusing could change: fused and joint by joint, compared with the expected rows."""

import datetime

import pyspark
import pytest
from support.joint_by_joint import Both, compiled
from support.projects import groups, reasons, sink, source, sql

from rivet_dagster.engines.pyspark.spark_home import minor

RAW = "SELECT * FROM VALUES (1, 10, 'a'), (2, 20, 'b;--'), (3, NULL, 'c'), (1, 5, 'a') AS t (k, v, s)"
"""The rows of the source `raw`."""


@pytest.fixture(scope="module")
def both(engine) -> Both:
    session = engine.session()
    session.spark.sql("CREATE OR REPLACE VIEW orders AS SELECT * FROM VALUES (7, 'engine') AS t (k, s)")
    yield Both(session.spark)
    session.spark.sql("DROP VIEW orders")
    session.close()


CASES = {
    "filter": (["SELECT k, v FROM raw WHERE v > 5", "SELECT k FROM {0} WHERE v < 20"], [(1,)]),
    "comment at the end": (["SELECT k FROM raw -- all", "SELECT max(k) AS m FROM {0} /* most */"], [(3,)]),
    "comments anywhere": (
        [
            "-- first\nSELECT /* ; */ k -- ) SELECT\nFROM /* /* nested */ ' */ raw GROUP -- it's\n BY k",
            "SELECT count(*) AS n FROM {0} --",
        ],
        [(3,)],
    ),
    "semicolons": (
        ["SELECT k, s FROM raw WHERE s <> ';' ;", "SELECT s FROM {0} WHERE s LIKE '%;--' ; -- end;\n;"],
        [("b;--",)],
    ),
    "strings": (
        ["SELECT 'it\\'s -- ;' AS x, \"a ' /*\" AS y, r'\\' AS z FROM raw LIMIT 1", "SELECT * FROM {0}"],
        [("it's -- ;", "a ' /*", "\\")],
    ),
    "inner WITH named as the other joint": (
        [
            "SELECT k FROM raw WHERE k > 1",
            "WITH raw AS (SELECT k + 1 AS k FROM {0}), {0} AS (SELECT * FROM raw) SELECT * FROM {0}",
        ],
        [(3,), (4,)],
    ),
    "inner WITH in both": (
        [
            "WITH x AS (SELECT k FROM raw) SELECT max(k) AS k FROM x",
            "WITH x AS (SELECT k * 2 AS k FROM {0}) SELECT * FROM x",
        ],
        [(6,)],
    ),
    "inner WITH named as its own joint": (
        ["SELECT max(k) AS k FROM raw", "WITH {1} AS (SELECT k + 1 AS k FROM {0}) SELECT * FROM {1}"],
        [(4,)],
    ),
    "WITH in a subquery hides": (
        [
            "SELECT min(k) AS k FROM raw",
            "SELECT a.k, b.k AS other FROM {0} a JOIN (WITH {0} AS (SELECT 9 AS k) SELECT * FROM {0}) b",
        ],
        [(1, 9)],
    ),
    "a CTE that nothing reads": (["SELECT k FROM raw", "WITH unused AS (SELECT * FROM {0}) SELECT 1 AS x"], [(1,)]),
    "recursive": (
        [
            "WITH RECURSIVE r (n) AS (SELECT min(k) FROM raw UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
            "WITH RECURSIVE r (n) AS (SELECT max(n) FROM {0} UNION ALL SELECT n + 1 FROM r WHERE n < 5) FROM r",
        ],
        [(3,), (4,), (5,)],
    ),
    "a joint of the same name as the engine's table": (
        ["SELECT k FROM raw", "SELECT k, s FROM orders"],
        [(7, "engine")],
        "orders",
    ),
    "set operations with ORDER BY and LIMIT": (
        [
            "SELECT k FROM raw UNION SELECT 9 ORDER BY k DESC LIMIT 2",
            "(SELECT k FROM {0}) EXCEPT (SELECT 9) ORDER BY k LIMIT 5",
        ],
        [(3,)],
    ),
    "MINUS and INTERSECT": (["SELECT k FROM raw MINUS SELECT 1", "SELECT k FROM {0} INTERSECT SELECT 2"], [(2,)]),
    "self-join": (
        ["SELECT k, v FROM raw", "SELECT a.v, b.v AS w FROM {0} a JOIN {0} b ON a.k = b.k AND a.v < b.v"],
        [(5, 10)],
    ),
    "quoted and reserved names": (
        [
            "SELECT k AS `Select`, v AS `a``b`, s AS `x;y--z` FROM raw",
            "SELECT `SELECT` AS `from`, `A``B` FROM {0} WHERE `x;y--z` = 'c'",
        ],
        [(3, None)],
    ),
    "letter case": (["SELECT K FROM RAW", "SELECT k FROM {0!u} WHERE K = 3"], [(3,)]),
    "correlated subqueries": (
        [
            "SELECT k, v FROM raw",
            "SELECT DISTINCT k, (SELECT max(v) FROM {0} b WHERE b.k = a.k) AS m FROM {0} a "
            "WHERE EXISTS (SELECT 1 FROM {0} c WHERE c.k > a.k)",
        ],
        [(1, 10), (2, 20)],
    ),
    "LATERAL VIEW": (
        ["SELECT k, array(k, v) AS xs FROM raw", "SELECT x FROM {0} LATERAL VIEW explode(xs) raw AS x WHERE k = 2"],
        [(2,), (20,)],
    ),
    "LATERAL subquery": (
        [
            "SELECT DISTINCT k FROM raw",
            "SELECT a.k, m FROM {0} a, LATERAL (SELECT count(*) AS m FROM {0} b WHERE b.k < a.k)",
        ],
        [(1, 0), (2, 1), (3, 2)],
    ),
    "lambdas": (
        [
            "SELECT collect_set(1) AS raw, array(1, 2) AS xs FROM raw",
            "SELECT aggregate(transform(xs, raw -> raw + 1), 0, (x, y) -> x + y) AS n FROM {0}",
        ],
        [(5,)],
    ),
    "GROUP BY ALL": (
        ["SELECT k, count(*) AS n FROM raw GROUP BY ALL", "SELECT n, count(*) AS m FROM {0} GROUP BY ALL"],
        [(1, 2), (2, 1)],
    ),
    "lateral column aliases": (
        ["SELECT k + 1 AS k1, k1 * 2 AS k2 FROM raw", "SELECT max(k2) AS m, m + 1 AS n FROM {0}"],
        [(8, 9)],
    ),
    "pipes": (
        [
            "FROM raw |> WHERE k > 1 |> AS orders |> SELECT orders.k, s",
            "FROM {0} |> ORDER BY k DESC |> LIMIT 1 |> SELECT k",
        ],
        [(3,)],
    ),
    "FROM first": (["FROM raw SELECT k WHERE k > 1", "FROM {0}"], [(2,), (3,)]),
    "VALUES": (["VALUES (1, 'a;--b'), (2, '/*')", "SELECT col2 FROM {0} WHERE col1 = 2"], [("/*",)]),
    "TABLE": (
        ["TABLE raw", "(TABLE {0}) UNION TABLE {0}"],
        [(1, 5, "a"), (1, 10, "a"), (2, 20, "b;--"), (3, None, "c")],
    ),
    "TABLE in a subquery": (["SELECT k FROM raw", "SELECT max(k) AS m FROM (TABLE {0})"], [(3,)]),
    "variant paths": (
        [
            "SELECT parse_json(concat('{{\"a\": {{\"b\": ', k, '}}}}')) AS j FROM raw",
            "SELECT DISTINCT j:a.b::INT AS b FROM {0}",
        ],
        [(1,), (2,), (3,)],
    ),
    "windows": (
        [
            "SELECT k, sum(v) OVER w AS t FROM raw WINDOW w AS (PARTITION BY k)",
            "SELECT DISTINCT k, rank() OVER (ORDER BY t DESC) AS p FROM {0} WHERE t > 0",
        ],
        [(1, 2), (2, 1)],
    ),
    "PIVOT": (
        ["SELECT * FROM raw PIVOT (sum(v) FOR s IN ('a', 'c'))", "SELECT k, a FROM {0} WHERE a IS NOT NULL"],
        [(1, 15)],
    ),
    "columns without a name": (
        ["SELECT k + 1, count(*) FROM raw GROUP BY k", "SELECT max(`(k + 1)`), max(`count(1)`) FROM {0}"],
        [(4, 2)],
    ),
    "hints": (
        [
            "SELECT /*+ REPARTITION(2) */ k FROM raw",
            "SELECT /*+ BROADCAST({0}) */ raw.k FROM {0} JOIN raw ON raw.k = {0}.k WHERE raw.k = 3",
        ],
        [(3,)],
    ),
    "USING and NATURAL": (
        [
            "SELECT k, 1 AS one FROM raw",
            "SELECT DISTINCT k, one FROM {0} JOIN (SELECT 2 AS k) USING (k) NATURAL JOIN (SELECT 1 AS one)",
        ],
        [(2, 1)],
    ),
    "IDENTIFIER": (
        [
            "SELECT IDENTIFIER('k'), s FROM IDENTIFIER('raw') AS r WHERE IDENTIFIER('r.k') > 1",
            "WITH raw AS (SELECT * FROM IDENTIFIER('`{0}`')) SELECT max(k) AS m FROM IDENTIFIER('RAW')",
        ],
        [(3,)],
    ),
    "names of functions and columns": (
        ["SELECT k AS raw, s AS first_joint FROM raw", "SELECT first_joint.raw FROM {0} AS first_joint WHERE raw = 3"],
        [(3,)],
    ),
}


@pytest.mark.nightly(but=5)
@pytest.mark.parametrize("case", CASES)
def test_a_construct_means_the_same_in_one_query(both: Both, case: str) -> None:
    if case in ("recursive", "variant paths") and minor(pyspark.__version__) < (4, 1):
        pytest.skip("Spark has this from 4.1 on")
    (first, second), expected, *named = CASES[case]
    names = ("first_joint", named[0] if named else "last_joint")
    shown = {"0": names[0], "1": names[1]}
    second = second.replace("{0!u}", names[0].upper())
    texts = [text.replace("{{", "\0").replace("}}", "\1") for text in (first, second)]
    for number, name in shown.items():
        texts = [text.replace(f"{{{number}}}", name) for text in texts]
    texts = [text.replace("\0", "{").replace("\1", "}") for text in texts]
    joints = [
        source("raw", options={"schema": "k INT, v INT, s STRING"}),
        *(sql(name, text) for name, text in zip(names, texts, strict=True)),
    ]
    plan = compiled(joints)
    raw = both.table(RAW)
    result = both.fused(plan, {"raw": raw})[names[1]]
    assert result.same_as(both.one_by_one(joints, {"raw": raw})[names[1]])
    assert both.values(result) == sorted(expected, key=str)
    reads_it = names[0] in plan.joint(names[1]).upstream
    assert (plan.joint(names[0]).group == names[1]) == reads_it


def test_a_cte_may_have_the_name_of_a_joint_or_of_a_table(both: Both) -> None:
    """A CTE with the name of a joint, and a joint that reads an engine's table with its own name."""
    joints = [
        sql("orders", "SELECT k, upper(s) AS s FROM orders"),
        sql("b", "WITH orders AS (SELECT 1 AS k, 'cte' AS s), x AS (SELECT * FROM orders) SELECT * FROM x"),
        sql("c", "SELECT * FROM b UNION ALL SELECT * FROM orders"),
    ]
    plan = compiled(joints)
    assert groups(plan) == {"c": ("b", "orders", "c")}
    result = both.fused(plan, {})["c"]
    assert both.values(result) == [(1, "cte"), (7, "ENGINE")]
    assert result.same_as(both.one_by_one(joints, {})["c"])


def test_a_sink_is_the_union_by_name_of_its_upstreams(both: Both) -> None:
    joints = [
        source("raw", engine="spark"),
        sql("a", "SELECT k, s FROM raw WHERE k = 1"),
        sql("b", "SELECT s, k FROM raw WHERE k = 2 ;"),
        sink("out", "b", "a"),
    ]
    plan = compiled(joints)
    raw = both.table(RAW)
    assert groups(plan) == {"out": ("raw", "a", "b", "out")}
    result = both.fused(plan, {"raw": raw})["out"]
    assert both.values(result) == [("a", 1), ("a", 1), ("b;--", 2)]
    assert result.same_as(both.one_by_one(joints, {"raw": raw})["out"])


def test_parameters_have_unchanged_names_and_positions(both: Both) -> None:
    """A value is bound to the fused query in the same way as to the query of each joint."""
    joints = [
        source("raw", engine="spark"),
        sql("a", "SELECT k, v, :day AS day FROM raw WHERE k >= :least -- :least"),
        sql("b", "SELECT ':day' AS text, day, k FROM IDENTIFIER(:table) WHERE v < :most LIMIT :few", upstream=["a"]),
    ]
    plan = compiled(joints)
    assert groups(plan) == {"b": ("raw", "a", "b")}
    assert [(w.code, w.joint) for w in plan.warnings] == [("RVT-315", "b")]
    given = {"least": 1, "most": 10, "few": 5, "day": datetime.date(2026, 1, 2), "table": "a"}
    both.table(RAW).frame(both.spark).createOrReplaceTempView("raw")
    fused = both.spark.sql(plan.group("b").sql, args=given).collect()
    both.spark.sql(plan.joint("a").sql, args=given).createOrReplaceTempView("a")
    assert fused == both.spark.sql(plan.joint("b").sql, args=given).collect()
    assert [tuple(row) for row in fused] == [(":day", given["day"], 1)]


CHANCE = {
    "rand": "SELECT id, rand() AS x FROM range(50)",
    "uuid": "SELECT id, uuid() AS x FROM range(50)",
    "shuffle": "SELECT id, shuffle(sequence(1, 9)) AS x FROM range(50)",
    "LIMIT": "SELECT id, id AS x FROM range(0, 50, 1, 4) LIMIT 7",
    "a pipe's LIMIT": "FROM range(0, 50, 1, 4) |> LIMIT 7 |> ORDER BY id |> SELECT id, id AS x",
    "TABLESAMPLE": "SELECT id, id AS x FROM (SELECT * FROM range(50)) TABLESAMPLE (50 PERCENT)",
    "a chain": "SELECT id, x FROM (SELECT id, rand() AS x FROM range(50))",
}
READERS = {
    "self-join": "SELECT a.x AS x, b.x AS y FROM chance a JOIN chance b ON a.id = b.id",
    "subquery": "SELECT a.x AS x, (SELECT max(b.x) FROM chance b WHERE b.id = a.id) AS y FROM chance a",
    "CTE": "WITH c AS (SELECT * FROM chance) SELECT a.x AS x, b.x AS y FROM c a JOIN c b ON a.id = b.id",
}


@pytest.mark.nightly(but=6)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("chance", CHANCE)
def test_a_non_deterministic_joint_read_twice_is_evaluated_once(both: Both, chance: str, reader: str) -> None:
    joints = [sql("chance", CHANCE[chance]), sql("pairs", READERS[reader])]
    plan = compiled(joints)
    assert reasons(plan) == {"chance": "non_deterministic"}
    stored = both.fused(plan, {})
    pairs = both.values(stored["pairs"])
    assert len(pairs) == len(both.values(stored["chance"])) > 0
    assert all(x == y for x, y in pairs)


def test_a_non_deterministic_joint_with_two_readers_is_evaluated_once(both: Both) -> None:
    joints = [
        sql("chance", CHANCE["rand"]),
        sql("low", "SELECT id, x FROM chance"),
        sql("high", "SELECT id, x FROM chance"),
        sql("pairs", "SELECT low.x AS x, high.x AS y FROM low JOIN high USING (id)"),
    ]
    plan = compiled(joints)
    assert reasons(plan) == {"chance": "multi_consumer"}
    assert all(x == y for x, y in both.values(both.fused(plan, {})["pairs"]))


@pytest.mark.nightly
def test_spark_accepts_every_keyword_as_the_name_of_a_joint(both: Both) -> None:
    """Names of CTEs are quoted if Spark does not accept them unquoted."""
    spark = both.spark
    words = [row.getString(0).lower() for row in spark.sql("SELECT * FROM sql_keywords()")._jdf.collectAsList()]
    from rivet_dagster.model.joint import RESERVED

    names = {f"reader_{number}": word for number, word in enumerate(words) if word not in RESERVED}
    assert len(names) > 300
    joints = [sql(name, "SELECT 1 AS x") for name in names.values()]
    plan = compiled([*joints, *(sql(reader, f"SELECT x FROM `{name}`") for reader, name in names.items())])
    assert {reader: set(joints) for reader, joints in groups(plan).items()} == {
        reader: {name, reader} for reader, name in names.items()
    }
    parser = spark._jsparkSession.sessionState().sqlParser()
    for reader in names:
        parser.parsePlan(plan.group(reader).sql)
