"""Columns that the compiler reports as unknown are unknown to Spark, and queries that Spark runs are accepted."""
# ruff: noqa: E501

from __future__ import annotations

import pytest

from rivet_dagster.sql.columns.type_names import parse_ddl
from rivet_dagster.sql.columns.unknown_columns import unknown_columns
from rivet_dagster.sql.parsing.dialect import read_query

from .test_schemas import QUERIES, TABLES

ACCEPTED = r"""
SELECT amount * 2 AS a, a + 1 AS b FROM u
SELECT name AS n, count(*) FROM u GROUP BY n
SELECT name AS n, count(*) AS c FROM u GROUP BY n HAVING c > 1 ORDER BY c
SELECT name, count(*) FROM u GROUP BY name ORDER BY `count(1)`
SELECT s.id FROM t ORDER BY id
SELECT count(*) FROM u HAVING `count(1)` > 1
SELECT explode(xs) FROM t ORDER BY col
SELECT id FROM u ORDER BY ALL
SELECT name, sum(amount) FROM u GROUP BY ALL ORDER BY ALL
SELECT transform(xs, x -> transform(xs, y -> x + y + n)) FROM t
SELECT aggregate(xs, 0, (acc, e) -> acc + e, acc -> acc * 2) FROM t
SELECT array_sort(xs, (l, r) -> CASE WHEN l < r THEN -1 ELSE 1 END) FROM t
SELECT map_filter(m, (k, v) -> v > 1), zip_with(xs, xs, (a, b) -> a + b) FROM t
SELECT transform(array(s), q -> q.tag) FROM t
SELECT u.id FROM u WHERE EXISTS (SELECT 1 FROM v WHERE v.id = u.id AND k > 1)
SELECT u.id FROM u WHERE EXISTS (SELECT 1 FROM v WHERE v.id = k)
SELECT (SELECT max(v.id) FROM v WHERE v.name = u.name) FROM u
SELECT id FROM u WHERE (SELECT count(*) FROM v WHERE v.id IN (SELECT w.k FROM w)) > 1
SELECT grouping__id, name FROM u GROUP BY name WITH ROLLUP
SELECT name, grouping(name) FROM u GROUP BY CUBE (name)
SELECT a, window.start, window.end, count(*) AS cnt FROM VALUES ('A1', TIMESTAMP '2021-01-01 00:00:00') AS tab(a, b) GROUP BY a, window(b, '5 minutes') ORDER BY a, window.start
SELECT a, session_window.start, count(*) FROM VALUES ('A1', TIMESTAMP '2021-01-01 00:00:00') AS tab(a, b) GROUP BY a, session_window(b, '5 minutes')
SELECT current_time FROM u
SELECT timestampadd(DAY, 1, at), timestampdiff(MONTH, at, at), dateadd(WEEK, 1, day), datediff(QUARTER, day, day), date_diff(DAYOFYEAR, day, day), extract(DOW FROM day), extract(WEEK FROM day), date_add(MICROSECOND, 1, at) FROM t
SELECT name COLLATE UTF8_LCASE, CAST(name AS STRING COLLATE UNICODE_CI), name COLLATE system.builtin.UTF8_LCASE FROM u
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount), mode() WITHIN GROUP (ORDER BY k) FROM u
SELECT any_value(name) IGNORE NULLS, count(*) FILTER (WHERE k > 1) FROM u
SELECT trim(BOTH name FROM name), overlay(name PLACING 'x' FROM 1), position('a' IN name), substring(name FROM 1 FOR 2) FROM u
SELECT sum(amount) OVER w, k FROM u WINDOW w AS (PARTITION BY name ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
SELECT sum(amount) OVER w FROM u WINDOW v AS (PARTITION BY name), w AS v
SELECT k FROM u WINDOW w AS (PARTITION BY nopecol)
SELECT * EXCEPT (xs, s.tag) FROM t
SELECT struct(* EXCEPT (id)) FROM u
SELECT TIMESTAMP_NTZ '2020-01-01 00:00:00', TIMESTAMP_LTZ '2020-01-01 00:00:00', DATE'2020-01-01', r'abc', X'1F', 'a' 'b', 1e3, 1BD FROM u
SELECT k IS NOT DISTINCT FROM 1, k <=> 1, !(k > 1), k IS NOT UNKNOWN FROM u
SELECT k = 1 IS TRUE FROM u
SELECT b.tag FROM (SELECT s AS b FROM t)
SELECT t.s.tag, T.S.TAG FROM t
SELECT m.a, m['a'] FROM t
SELECT arr.tag FROM (SELECT array(s) AS arr FROM t)
SELECT x2.e FROM t, LATERAL explode(xs) AS x2(e) WHERE e > n
SELECT id FROM u AS a JOIN v AS b USING (id) WHERE a.k > 1 AND b.city = 'x'
SELECT id, a.id, b.id FROM u a FULL JOIN v b USING (id) ORDER BY a.id
SELECT * FROM u a LEFT SEMI JOIN v b ON a.id = b.id AND b.city = 'x'
SELECT * FROM u a LEFT ANTI JOIN v b ON a.id = b.id AND city = 'x'
SELECT * FROM u PIVOT (sum(amount) FOR name IN ('a' AS aa, 'b' AS bb)) WHERE aa > 1
SELECT val, c2 FROM u UNPIVOT (val FOR c2 IN (id AS i, k AS j)) WHERE c2 = 'i'
SELECT * FROM (SELECT id, k FROM u) UNPIVOT INCLUDE NULLS (val FOR c2 IN (id, k))
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r
FROM u |> EXTEND amount * 2 AS twice |> WHERE twice > 1 |> AGGREGATE sum(twice) AS total GROUP BY name |> ORDER BY total
SELECT * FROM u TABLESAMPLE (10 PERCENT) AS q WHERE q.id > 1
SELECT /*+ BROADCAST(q) */ q.id FROM u q JOIN v ON q.id = v.id
SELECT stack(2, 1, 2, 3, 4)
SELECT json_tuple(name, 'a', 'b') AS (a, b) FROM u ORDER BY a
SELECT a FROM u LATERAL VIEW json_tuple(name, 'a', 'b') j AS a, b WHERE b = 'x'
SELECT col1, col2 FROM VALUES (1, 2)
SELECT col1 FROM (VALUES (1), (2))
SELECT id FROM u ORDER BY -k, upper(name) DESC NULLS LAST
SELECT name AS who FROM u ORDER BY who, amount
SELECT DISTINCT name AS who FROM u ORDER BY who
SELECT name, max(amount) FROM u GROUP BY 1 ORDER BY max(k)
SELECT `a.b`, `c d` FROM (SELECT 1 AS `a.b`, 2 AS `c d`)
SELECT q.`a.b` FROM (SELECT 1 AS `a.b`) q
SELECT ID, Name, AMOUNT FROM U
SELECT id FROM u MINUS SELECT id FROM v
SELECT id AS x FROM u UNION ALL SELECT id FROM v ORDER BY x
(SELECT id AS x FROM u) UNION (SELECT id FROM v) ORDER BY x LIMIT 3
SELECT u.id FROM u JOIN (SELECT id AS vid FROM v) q ON q.vid = u.id AND vid > 1
SELECT l.more FROM u, LATERAL (SELECT u.amount + 1 AS more) l WHERE more > 1
SELECT id FROM u JOIN LATERAL (SELECT city FROM v WHERE v.id = u.id) l ON city = name
SELECT * FROM u NATURAL JOIN w WHERE k = 1 AND extra = 'x'
SELECT * FROM (u JOIN v ON u.id = v.id) JOIN w ON u.k = w.k
SELECT CASE name WHEN 'a' THEN k ELSE id END AS x FROM u WHERE name RLIKE 'a' AND name ILIKE ANY ('a', 'b')
SELECT id FROM u WHERE id IN (k, 2) AND (id, k) IN (SELECT id, 1 FROM v)
SELECT IF(k > 1, id, 0), nvl2(name, 1, 2), coalesce(name, 'x') FROM u
SELECT date_part('YEAR', day), date_trunc('MONTH', at), trunc(day, 'MM'), ceil(x, 1) FROM t
SELECT INTERVAL '1' DAY, INTERVAL '1-2' YEAR TO MONTH, day + INTERVAL 1 DAY FROM t
SELECT from_json('{"a":1}', 'a INT').a, named_struct('a', 1).a, array(s)[0].tag, map('k', s)['k'].tag FROM t
SELECT try_variant_get(parse_json('{"a":1}'), '$.a', 'int'), parse_json('{"a":{"b":1}}'):a.b::int FROM u
SELECT name, sum(amount) FROM u GROUP BY GROUPING SETS ((name), ()) ORDER BY grouping_id()
SELECT id, sum(amount) OVER (PARTITION BY name ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s2 FROM u ORDER BY s2
SELECT 1 AS a, (SELECT max(id) FROM u) AS b, a + b AS c
WITH q AS (SELECT id FROM u), u AS (SELECT id AS x FROM q) SELECT x FROM u
WITH q AS (WITH q AS (SELECT 1 AS a) SELECT a + 1 AS b FROM q) SELECT b FROM q
SELECT q.id FROM (SELECT * FROM u) q WHERE q.name = 'x' AND amount > 1
SELECT * FROM (SELECT id, id + 1 FROM u) WHERE `(id + 1)` > 1
SELECT identifier('id') FROM u
SELECT session_user(), typeof(k) FROM u
SELECT max(struct(k, id)).k FROM u
SELECT collect_list(struct(k AS a, id AS b))[0].a FROM u
SELECT posexplode(xs) AS (p, e), n FROM t ORDER BY p
SELECT id FROM u GROUP BY id HAVING EXISTS (SELECT 1 FROM v WHERE v.id = u.id)
SELECT id AS a FROM u GROUP BY a HAVING a > 1
SELECT sum(k) AS total, total * 2 AS twice FROM u
SELECT s.* FROM t ORDER BY tag
SELECT t.s.* FROM t ORDER BY tag
SELECT u.* FROM u ORDER BY amount
SELECT * FROM u, v WHERE u.id = v.id AND city = 'x'
SELECT name FROM u ORDER BY id LIMIT 2
SELECT current_date, current_timestamp, current_user, user, session_user FROM u
SELECT explode(xs), col + 1 FROM t
SELECT inline(array(struct(1 AS a))), a + 1 FROM t
FROM u |> WHERE id > 1 |> SET amount = amount + 1 |> DROP k |> SELECT amount
"""

REFUSED = """
WITH q AS (SELECT nopecol FROM u) SELECT 1
WITH q AS (SELECT nopecol FROM u), r AS (SELECT * FROM q) SELECT id FROM u
SELECT id FROM u WHERE EXISTS (SELECT nopecol FROM v)
SELECT amount * 2 AS twice FROM u WHERE twice > 1
SELECT u.id FROM u x
SELECT nopecol
SELECT id FROM u ORDER BY nopecol
SELECT name, count(*) FROM u GROUP BY nopecol
SELECT name, count(*) AS c FROM u GROUP BY name HAVING d > 1
SELECT name, count(*) AS c FROM u GROUP BY name HAVING c > nopecol
SELECT o.nopecol FROM u o JOIN v p ON o.id = p.id
SELECT o.id FROM u o JOIN v p ON o.id = p.nopecol
SELECT o.id FROM u o JOIN v p ON o.id = q.id
SELECT o.id FROM u o LEFT SEMI JOIN v p ON o.id = p.id WHERE p.city = 'x'
SELECT * FROM u LEFT ANTI JOIN v ON u.id = v.id WHERE city = 'x'
SELECT transform(xs, e -> e + nopecol) FROM t
SELECT id FROM u WHERE id IN (SELECT nopecol FROM v)
SELECT id FROM u WHERE id = (SELECT max(v.id) FROM v WHERE v.name = u.nopecol)
SELECT sum(amount) OVER (PARTITION BY nopecol) FROM u
SELECT sum(amount) FILTER (WHERE nopecol) FROM u
SELECT CASE WHEN nopecol THEN 1 END FROM u
SELECT id FROM (SELECT id AS x FROM u)
SELECT x FROM (SELECT id AS x FROM u) q WHERE q.id = 1
SELECT e FROM t LATERAL VIEW explode(xs) q AS e WHERE q.nopecol = 1
SELECT a FROM VALUES (1, 2) AS q(a, b) WHERE c = 1
SELECT id FROM range(3) WHERE ids > 1
SELECT id AS a FROM u UNION ALL SELECT nopecol FROM v
WITH q AS (SELECT id AS x FROM u) SELECT id FROM q
SELECT id FROM u WHERE u.name = nope.name
SELECT DISTINCT name FROM u ORDER BY nopecol
SELECT name FROM u SORT BY nopecol
SELECT name FROM u DISTRIBUTE BY nopecol
SELECT name FROM u CLUSTER BY nopecol
SELECT count(DISTINCT nopecol) FROM u
SELECT name FROM u GROUP BY CUBE (name, nopecol)
SELECT name FROM u GROUP BY name, id GROUPING SETS ((name), (nopecol))
SELECT u.name FROM u NATURAL JOIN w WHERE nopecol = 1
SELECT * FROM u JOIN v USING (id) WHERE amounts > 1
SELECT EXISTS (SELECT 1 FROM v WHERE v.id = t2.id) FROM u
SELECT id FROM u WHERE id > ALL_ids
SELECT *, nopecol FROM u
SELECT u.*, nopecol FROM u
SELECT nopecol AS x, x + 1 AS y FROM u
SELECT max_by(name, nopecol) FROM u
SELECT (SELECT max(nopecol) FROM v) FROM u
SELECT id FROM u, LATERAL (SELECT nopecol FROM v) l
SELECT id FROM u JOIN LATERAL (SELECT city FROM v WHERE v.id = u.nopecol) l
SELECT `nopecol` FROM u
SELECT U.NOPECOL FROM u
SELECT listagg(name, ',') WITHIN GROUP (ORDER BY nopecol) FROM u
SELECT max(id) + nopecol FROM u
SELECT named_struct('a', nopecol) FROM u
SELECT id FROM u WHERE name LIKE nopecol
SELECT CAST(nopecol AS INT), nopecol2::int FROM u
SELECT id FROM u WHERE (id, nopecol) IN (SELECT id, id FROM v)
SELECT id FROM u WHERE id BETWEEN nopecol AND 2
SELECT id FROM u ORDER BY u.nopecol
SELECT name FROM u GROUP BY name ORDER BY amount2
SELECT name, sum(amount) FROM u GROUP BY name ORDER BY sum(nopecol)
SELECT name, sum(amount) FROM u GROUP BY name ORDER BY amounts
"""
"""Queries with at least one column that the compiler reports as unknown."""

LEFT_TO_SPARK = """
SELECT id FROM u, default.far_away WHERE nopecol = 1
SELECT inline(array(struct(1 AS a))), nopecol FROM t
SELECT upper(name) FROM u ORDER BY nopecol
SELECT s.nopecol FROM t
FROM u |> WHERE nopecol = 1
SELECT `nope col` FROM u
SELECT _nopecol FROM u
SELECT * FROM u PIVOT (sum(amount) FOR name IN ('a')) WHERE nopecol = 1
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT nopecol FROM r
SELECT id FROM u WINDOW w AS (ORDER BY nopecol)
SELECT u.id FROM u LEFT SEMI JOIN v ON u.id = v.nopecol
"""
"""Queries for which the compiler is not sure and reports nothing."""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def ours(query: str) -> list[str]:
    read = read_query(query)
    schemas = {name: parse_ddl(ddl) for name, ddl in TABLES.items()}
    return [] if read.tree is None else [one.name for one in unknown_columns(read.text, read.tree, schemas)]


@pytest.fixture
def spark(application):
    """Yield a session in which the tables are empty views."""
    session = application.session()
    for name, ddl in TABLES.items():
        session.spark.createDataFrame([], ddl).createOrReplaceTempView(name)
    yield session.spark
    session.close()


def condition(spark, query: str) -> str | None:
    """Return the error condition with which Spark rejects a query, or None."""
    from pyspark.errors import PySparkException

    try:
        spark.sql(query).schema  # noqa: B018
    except PySparkException as error:
        return error.getCondition()
    return None


def test_queries_that_spark_runs_are_never_rejected(spark):
    queries = lines(ACCEPTED)
    assert [(query, why) for query in queries if (why := condition(spark, query))] == []
    assert [(query, found) for query in [*queries, *lines(QUERIES)] if (found := ours(query))] == []


@pytest.mark.nightly
def test_rejected_queries_are_rejected_by_spark_too(spark):
    assert [query for query in lines(REFUSED) if not ours(query)] == []
    conditions = {query: condition(spark, query) or "" for query in lines(REFUSED)}
    assert [(q, why) for q, why in conditions.items() if not why.startswith("UNRESOLVED_COLUMN")] == []


def test_uncertain_columns_are_left_to_spark():
    assert [(query, found) for query in lines(LEFT_TO_SPARK) if (found := ours(query))] == []
