-- arithmetic
SELECT 1 + 2 AS x
SELECT 7 - 10 AS x
SELECT 2147483647 + 1 AS x
SELECT 9223372036854775807 + 1 AS x
SELECT 6 * 7 AS x
SELECT 7 / 2 AS x
SELECT 1 / 0 AS x
SELECT 7 % 3 AS x, -7 % 3 AS y
SELECT 7 % 0 AS x
SELECT 7 div 2 AS x, -7 div 2 AS y
SELECT 1.5 + 2 AS x
SELECT 1.10 * 2.5 AS x
SELECT 1.0 / 3.0 AS x
SELECT pmod(-7, 3) AS x
SELECT abs(-5) AS x
SELECT round(2.5) AS x
SELECT bround(2.5) AS x
SELECT floor(-1.5D) AS x, ceil(1.2D) AS y
SELECT sqrt(16.0D) AS x
SELECT greatest(1, 3, NULL) AS x, least(2, 5) AS y
SELECT '2' + 1 AS x
SELECT conv('ff', 16, 10) AS x
SELECT sign(-3.5D) AS x
-- casts
SELECT CAST('abc' AS INT) AS x
SELECT CAST('1.5' AS INT) AS x
SELECT CAST(' 12 ' AS INT) AS x
SELECT CAST(1.9 AS INT) AS x, CAST(-1.5 AS INT) AS y
SELECT CAST(1.9D AS INT) AS x
SELECT CAST(300 AS TINYINT) AS x
SELECT CAST(1e10 AS STRING) AS x
SELECT CAST(12 AS STRING) AS x
SELECT CAST(true AS INT) AS x, CAST(0 AS BOOLEAN) AS y
SELECT CAST('2024-02-29' AS DATE) AS x
SELECT CAST('2023-02-29' AS DATE) AS x
SELECT CAST(TIMESTAMP '2024-01-01 00:00:00' AS BIGINT) AS x
SELECT try_cast('abc' AS INT) AS x
SELECT CAST(1.255 AS DECIMAL(5, 2)) AS x
SELECT CAST('yes' AS BOOLEAN) AS x
-- texts
SELECT upper('abc') AS x, lower('ABC') AS y
SELECT length('abc ') AS x
SELECT concat('a', NULL) AS x
SELECT 'a' || 'b' AS x
SELECT concat_ws(',', 'a', NULL, 'b') AS x
SELECT substring('hello', 2, 3) AS x
SELECT substring('hello', 0, 2) AS x
SELECT substring('hello', -3, 2) AS x
SELECT left('hello', 2) AS x, right('hello', 2) AS y
SELECT trim('  a ') AS x
SELECT lpad('7', 3, '0') AS x
SELECT replace('aXbX', 'X', '-') AS x
SELECT split('a,b,c', ',') AS x
SELECT instr('hello', 'l') AS x
SELECT 'abc' LIKE 'a%' AS x
SELECT 'abc' RLIKE '^a.c$' AS x
SELECT regexp_replace('a1b2', '[0-9]', '#') AS x
SELECT format_number(1234.5, 2) AS x
SELECT substring_index('a.b.c', '.', 2) AS x
SELECT md5('a') AS x
SELECT initcap('hello world') AS x
-- dates
SELECT date_add(DATE '2024-01-31', 1) AS x
SELECT DATE '2024-01-31' + INTERVAL 1 MONTH AS x
SELECT datediff(DATE '2024-03-01', DATE '2024-02-28') AS x
SELECT dayofweek(DATE '2024-01-01') AS x
SELECT year(DATE '2024-05-06') AS x, month(DATE '2024-05-06') AS y
SELECT date_format(DATE '2024-05-06', 'yyyy-MM') AS x
SELECT date_trunc('month', TIMESTAMP '2024-05-06 07:08:09') AS x
SELECT trunc(DATE '2024-05-06', 'MM') AS x
SELECT last_day(DATE '2024-02-10') AS x
SELECT timestampdiff(DAY, TIMESTAMP '2024-01-01 23:00:00', TIMESTAMP '2024-01-02 01:00:00') AS x
SELECT unix_timestamp('1970-01-02 00:00:00') AS x
SELECT to_date('2024-05-06') AS x
SELECT hour(TIMESTAMP '2024-05-06 07:08:09') AS x
-- conditions and NULL
SELECT CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END AS x
SELECT if(1 < 2, 'a', 'b') AS x
SELECT coalesce(NULL, 3, 4) AS x
SELECT nullif(1, 1) AS x
SELECT NULL <=> NULL AS x
SELECT 1 IN (2, NULL) AS x
SELECT 2 BETWEEN 1 AND 3 AS x
SELECT nvl2(NULL, 1, 2) AS x
-- arrays and maps
SELECT array(1, 2, 3)[1] AS x
SELECT array(1, 2)[9] AS x
SELECT element_at(array(1, 2, 3), 1) AS x
SELECT size(array(1, 2, 3)) AS x
SELECT array_contains(array(1, 2), 2) AS x
SELECT array_distinct(array(1, NULL, 1)) AS x
SELECT sort_array(array(3, 1, NULL)) AS x
SELECT transform(array(1, 2), x -> x * 2) AS x
SELECT filter(array(1, 2, 3), x -> x > 1) AS x
SELECT aggregate(array(1, 2, 3), 0, (a, x) -> a + x) AS x
SELECT exists(array(1, 2), x -> x > 1) AS x
SELECT explode(array(1, 2)) AS x
SELECT posexplode(array('a', 'b')) AS (p, x)
SELECT from_json('{"a": 1}', 'a INT').a AS x
SELECT hash(1) AS x
SELECT xxhash64('a') AS x
-- queries
SELECT * FROM VALUES (2), (NULL), (1) AS t (a) ORDER BY a
SELECT * FROM VALUES (2), (NULL), (1) AS t (a) ORDER BY a DESC LIMIT 2
SELECT a, count(*) AS n FROM VALUES (1), (1), (2) AS t (a) GROUP BY a HAVING count(*) > 1
SELECT sum(a) AS s, avg(a) AS m, max(a) AS h FROM VALUES (1), (2), (NULL) AS t (a)
SELECT count(DISTINCT a) AS n, count(a) AS m FROM VALUES (1), (1), (NULL) AS t (a)
SELECT collect_list(a) AS x FROM VALUES (1), (NULL) AS t (a)
SELECT sum(a) FILTER (WHERE a > 1) AS s FROM VALUES (1), (2), (3) AS t (a)
SELECT percentile(a, 0.5) AS x FROM VALUES (1), (2), (4) AS t (a)
SELECT a, sum(b) AS s FROM VALUES (1, 2), (1, 3), (2, 4) AS t (a, b) GROUP BY ROLLUP (a)
SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM VALUES (1, 2), (1, 1), (2, 4) AS t (a, b)
SELECT a, lag(a) OVER (ORDER BY a) AS p FROM VALUES (1), (3) AS t (a)
SELECT a, first_value(b) IGNORE NULLS OVER (ORDER BY a) AS f FROM VALUES (1, NULL), (2, 7) AS t (a, b)
SELECT t.a, u.b FROM VALUES (1), (2) AS t (a) LEFT JOIN VALUES (1, 'x') AS u (a, b) ON t.a = u.a
SELECT t.a FROM VALUES (1), (2) AS t (a) LEFT SEMI JOIN VALUES (1) AS u (a) ON t.a = u.a
SELECT t.a FROM VALUES (1), (2) AS t (a) LEFT ANTI JOIN VALUES (1) AS u (a) ON t.a = u.a
SELECT a FROM VALUES (1), (2) AS t (a) WHERE a IN (SELECT b FROM VALUES (2) AS u (b))
SELECT a FROM VALUES (1), (2) AS t (a) EXCEPT SELECT b FROM VALUES (2) AS u (b)
SELECT a FROM VALUES (1), (2) AS t (a) UNION SELECT b FROM VALUES (2), (3) AS u (b)
SELECT a, x FROM VALUES (1, array(1, 2)) AS t (a, xs) LATERAL VIEW explode(xs) e AS x
WITH c AS (SELECT 1 AS a) SELECT a + 1 AS b FROM c
SELECT * FROM VALUES (1, 'p', 2), (1, 'q', 3) AS t (a, k, v) PIVOT (sum(v) FOR k IN ('p', 'q'))
SELECT stack(2, 1, 2) AS x
SELECT a FROM VALUES (1) AS t (a) GROUP BY ALL
SELECT TIMESTAMP'2024-07-01 12:30:00 UTC' AS v
SELECT TIMESTAMP'2024-07-01T12:30:00.123456+05:30' AS v
SELECT TIMESTAMP'1969-12-31 23:59:59.9Z' AS v
SELECT sum(id) AS v FROM range(10)
SELECT a.id + b.id AS v FROM range(2) AS a JOIN range(1, 3) AS b ON a.id = b.id
