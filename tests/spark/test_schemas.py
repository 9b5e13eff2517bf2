"""The columns that the compiler infers for a query equal those of Spark."""
# ruff: noqa: E501

from __future__ import annotations

import pytest

from rivet_dagster.model.schema import Field
from rivet_dagster.sql.columns.output_columns import output_columns
from rivet_dagster.sql.columns.type_names import parse_ddl
from rivet_dagster.sql.parsing.dialect import read_query

TABLES = {
    "t": """id BIGINT, n INT, tiny TINYINT, small SMALLINT, x DOUBLE, f FLOAT, price DECIMAL(10,2), big DECIMAL(38,10),
            name STRING, ok BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, xs ARRAY<INT>,
            m MAP<STRING, BIGINT>, s STRUCT<Id: INT, tag: STRING>""",
    "u": "id BIGINT, name STRING, amount DOUBLE, k INT",
    "w": "k INT, name STRING, extra STRING",
    "v": "Name STRING, ID BIGINT, city STRING",
}

EXPRESSIONS = """
id | n | tiny | x | f | price | name | ok | day | at | local | raw | xs | m | s | s.Id | t.s.tag | xs[0] | m['a']
1 | 2147483647 | 2147483648 | -2147483648 | -2147483649 | -9223372036854775808 | 9223372036854775807 | 1.5 | 1e3 | 1.5e-3
1L | 1.5D | 1.5BD | 1S | 1Y | 1.5F | 'a' | true | NULL | DATE '2020-01-01' | TIMESTAMP '2020-01-01 00:00:00' | X'1F'
INTERVAL 1 DAY | current_date | current_date() | current_timestamp | now() | current_timestamp() | localtimestamp()
id + 1 | n + 1 | n + id | tiny + tiny | tiny + small | x + 1 | x * n | id * x | f + f | f + n | f + x | price + 1 | price * x
price + price | n - id | id / n | n / 2 | x / n | f / f | price / 2 | id % 2 | n % 2 | tiny % 2 | mod(id, n) | pmod(n, 2)
id DIV 2 | tiny DIV tiny | -n | -x | -price | -tiny | ~n | n & 1 | abs(n) | abs(x) | abs(price) | round(x, 2) | round(x)
round(n) | round(price, 1) | floor(x) | floor(id) | floor(price) | ceil(x) | ceil(n) | ceil(x, 1) | floor(x, 1) | sqrt(n)
bround(x) | exp(n) | ln(n) | log10(n) | log(2, n) | pow(n, 2) | power(x, 2) | sign(n) | day + 1 | day - 1 | day - day | at - at
at + INTERVAL 1 DAY | day + INTERVAL 1 DAY | 1 + day
upper(name) | lower(name) | UCASE(name) | upper(n) | trim(name) | ltrim(name) | rtrim(name) | trim(BOTH 'x' FROM name)
initcap(name) | substring(name, 1, 2) | substr(name, 1) | substring(raw, 1, 2) | substring(n, 1, 2) | left(name, 1)
left(raw, 1) | right(name, 1) | replace(name, 'a', 'b') | regexp_replace(name, 'a', 'b') | regexp_extract(name, 'a', 0)
lpad(name, 3, 'x') | rpad(name, 3) | lpad(raw, 3) | repeat(name, 2) | reverse(name) | reverse(xs) | concat(name, 'a')
concat(name, id) | concat(raw, raw) | concat(xs, xs) | concat(id, n) | concat(name, price) | concat(name, day, at, ok, x)
concat_ws(',', name, 'a') | concat_ws(',', xs) | md5(name) | sha2(name, 256) | sha(name) | hex(n) | hex(name) | typeof(n)
length(name) | char_length(name) | length(raw) | octet_length(name) | instr(name, 'a') | locate('a', name) | position('a', name)
split(name, ',') | translate(name, 'a', 'b') | split_part(name, ',', 1) | overlay(name PLACING 'x' FROM 1) | ascii(name) | chr(n)
name = 'a' | n <> 1 | n != 1 | n <=> 1 | n < 1 | n >= id | ok AND n > 1 | ok OR ok | NOT ok | !ok | name IS NULL | name IS NOT NULL
ok IS TRUE | n IN (1, 2) | n NOT IN (1, 2) | n BETWEEN 1 AND 2 | name LIKE 'a%' | name NOT LIKE 'a%' | name RLIKE 'a'
name ILIKE 'a' | regexp_like(name, 'a') | isnull(n) | isnotnull(n) | isnan(x) | startswith(name, 'a') | endswith(name, 'a')
contains(name, 'a') | array_contains(xs, 1) | exists(xs, e -> e > 1) | n IS DISTINCT FROM 1 | name LIKE ANY ('a', 'b')
startswith(raw, raw) | array_size(xs)
CASE WHEN ok THEN 1 ELSE 2 END | CASE WHEN ok THEN 1 END | CASE n WHEN 1 THEN 'a' WHEN 2 THEN 'b' END
CASE WHEN ok THEN n ELSE id END | CASE WHEN ok THEN n ELSE x END | CASE WHEN ok THEN NULL ELSE price END
CASE WHEN ok THEN price ELSE big END | CASE WHEN ok THEN n ELSE 'a' END | CASE WHEN ok THEN NULL END
CASE WHEN ok THEN tiny ELSE 1 END | IF(ok, 1, 2) | IF(ok, NULL, id) | IF(ok, tiny, x) | IF(ok, n, price) | nullif(n, 1)
nullif(name, 'a') | nullif(tiny, id) | nvl(n, 0) | nvl(id, 0) | ifnull(name, 'a') | nvl2(n, 'a', 'b') | nvl2(n, 1, 1L)
coalesce(n, id, 1) | coalesce(NULL, name) | coalesce(NULL, NULL) | coalesce(price, 0) | coalesce(x, 0) | coalesce(f, 0)
coalesce(f, 0L) | coalesce(day, at) | coalesce(name, 'a') | coalesce(price, price) | coalesce(xs, xs) | greatest(n, id)
least(n, 1) | greatest(x, n) | greatest(name, 'a') | greatest(f, x) | decode(n, 1, 'a', 'b') | zeroifnull(n) | nullifzero(n)
CAST(n AS STRING) | CAST(n AS DECIMAL) | CAST(n AS DECIMAL(5)) | CAST(n AS DECIMAL(5,1)) | CAST(n AS NUMERIC(5,1)) | n::bigint
CAST(name AS VARCHAR(3)) | CAST(name AS CHAR(3)) | CAST(xs AS ARRAY<BIGINT>) | CAST(m AS MAP<STRING, INT>) | CAST(n AS LONG)
CAST(s AS STRUCT<a: INT, B: STRING>) | CAST(name AS TIMESTAMP) | CAST(name AS TIMESTAMP_NTZ) | CAST(name AS TIMESTAMP_LTZ)
CAST(n AS REAL) | CAST(n AS DEC(3,1)) | CAST(n AS INTEGER) | CAST(n AS SHORT) | CAST(n AS BYTE) | CAST(name AS BINARY)
CAST(1 AS INTERVAL DAY) | try_cast(name AS INT) | string(n) | int(name) | bigint(n) | double(n) | date(name) | timestamp(name)
decimal(n) | boolean(name) | float(n) | binary(name) | tinyint(n) | smallint(n) | name :: INT + 1 | CAST(name AS DATE)
to_date(name) | to_date(name, 'yyyy') | make_date(2020, 1, 1) | date_add(day, 1) | date_sub(day, 1) | dateadd(day, 1)
dateadd(DAY, 1, day) | dateadd(HOUR, 1, at) | dateadd(MONTH, 1, local) | date_add(HOUR, 1, at) | datediff(day, day) | date_diff(day, day)
datediff(DAY, at, at) | last_day(day) | next_day(day, 'MO') | trunc(day, 'MM') | date_trunc('MONTH', at) | add_months(day, 1)
date_trunc('MONTH', day) | date_trunc('DAY', local) | to_timestamp(name) | to_timestamp(name, 'yyyy') | to_timestamp_ntz(name)
unix_timestamp(at) | unix_timestamp() | from_unixtime(id) | timestamp_seconds(id) | date_format(at, 'yyyy') | year(day) | quarter(day)
month(day) | day(day) | dayofmonth(day) | dayofweek(day) | weekday(day) | dayofyear(day) | weekofyear(day) | hour(at) | minute(at)
second(at) | extract(YEAR FROM day) | extract(SECOND FROM at) | date_part('year', day) | months_between(day, day)
timestampdiff(DAY, at, at) | timestampadd(DAY, 1, at) | make_timestamp(1, 1, 1, 1, 1, 1) | from_utc_timestamp(at, 'UTC')
timestamp_millis(id) | dayname(day) | monthname(day) | try_to_timestamp(name) | to_char(n, '999') | to_number('1', '9')
array(1, 2) | array(1, 2L) | array('a') | array() | array(1, 'a') | size(xs) | size(m) | cardinality(xs) | element_at(xs, 1)
element_at(m, 'a') | transform(xs, e -> e + n) | filter(xs, e -> e > 1) | aggregate(xs, 0, (a, e) -> a + e) | struct(n, x)
named_struct('a', n) | map('a', 1) | array_distinct(xs) | sort_array(xs) | hash(n) | xxhash64(n) | crc32(name) | to_json(s)
get_json_object(name, '$.a') | uuid() | rand() | monotonically_increasing_id() | try_divide(n, 2) | try_add(n, 1)
(SELECT max(amount) FROM u) | (SELECT count(*) FROM u WHERE u.id = t.id) | EXISTS (SELECT 1 FROM u) | n IN (SELECT k FROM u)
row_number() OVER (ORDER BY n) | rank() OVER (ORDER BY n) | dense_rank() OVER (ORDER BY n) | ntile(3) OVER (ORDER BY n)
percent_rank() OVER (ORDER BY n) | cume_dist() OVER (ORDER BY n) | lag(name) OVER (ORDER BY n) | lead(n, 1, 0) OVER (ORDER BY n)
lag(n, 1, 0L) OVER (ORDER BY n) | lag(price) OVER (ORDER BY n) | sum(n) OVER (PARTITION BY name) | avg(x) OVER ()
first_value(name) IGNORE NULLS OVER (ORDER BY n) | nth_value(day, 2) OVER (ORDER BY n) | last_value(n, true) OVER (ORDER BY n)
count(*) OVER () | max(at) OVER w
"""

AGGREGATES = """
count(*) | count(n) | count(DISTINCT n) | count(DISTINCT n, id) | count_if(ok) | approx_count_distinct(n) | sum(n) | sum(id)
sum(tiny) | sum(x) | sum(f) | sum(price) | sum(big) | sum(DISTINCT n) | sum(n) FILTER (WHERE ok) | sum(n + 1) | sum(name)
avg(n) | avg(x) | avg(f) | avg(price) | avg(big) | mean(n) | avg(name) | min(n) | max(name) | max(price) | min(day) | max(at)
min(xs) | first(n) | first(name, true) | last(x) | any_value(n) | first_value(day) | max_by(name, n) | min_by(n, name)
bool_or(ok) | bool_and(ok) | every(ok) | some(ok) | any(ok) | collect_list(n) | collect_set(name) | array_agg(n)
collect_list(price) | stddev(n) | stddev_pop(x) | stddev_samp(x) | variance(n) | var_pop(x) | var_samp(x) | corr(n, x)
covar_pop(n, x) | percentile(n, 0.5) | percentile_approx(n, 0.5) | median(n) | mode(n) | skewness(n) | try_sum(n) | try_avg(n)
sum(n) / count(*) | coalesce(sum(n), 0) | sum(CASE WHEN ok THEN 1 ELSE 0 END) | max(n) - min(n) | round(avg(x), 2)
round(sum(price), 2) | listagg(name, ',') | string_agg(name) | max(struct(n, x)) | count(n) > 1 | bit_and(n)
"""

QUERIES = """
SELECT * FROM t
SELECT * FROM t, u
SELECT * FROM t JOIN u ON t.id = u.id
SELECT u.*, t.n FROM t JOIN u ON t.id = u.id
SELECT id, NAME, X FROM t
SELECT t.Id, T.`name` FROM t
SELECT s.id, s.TAG FROM t
SELECT * FROM u JOIN v USING (id)
SELECT * FROM v JOIN u USING (id)
SELECT * FROM u JOIN v USING (name, id)
SELECT * FROM u LEFT JOIN v USING (ID)
SELECT * FROM u RIGHT JOIN v USING (id)
SELECT * FROM v RIGHT JOIN u USING (id, name)
SELECT * FROM u FULL OUTER JOIN v USING (id)
SELECT * FROM u NATURAL JOIN v
SELECT * FROM v NATURAL LEFT JOIN u
SELECT * FROM u NATURAL FULL JOIN v
SELECT * FROM u NATURAL JOIN w
SELECT * FROM w NATURAL FULL JOIN u
SELECT w.*, u.* FROM u NATURAL RIGHT JOIN w
SELECT * FROM v LEFT SEMI JOIN u USING (id)
SELECT * FROM v LEFT ANTI JOIN u USING (id, name)
SELECT * FROM u LEFT SEMI JOIN v ON u.id = v.id
SELECT u.*, v.* FROM u JOIN v USING (id)
SELECT v.* FROM v JOIN u USING (id)
SELECT u.* FROM v JOIN u USING (name)
SELECT v.*, u.* FROM u FULL JOIN v USING (name)
SELECT v.* FROM u RIGHT JOIN v USING (id)
SELECT id, u.id AS a, v.id AS b, v.name FROM u JOIN v USING (id)
SELECT * FROM u JOIN v USING (id) JOIN t USING (id)
SELECT * FROM u JOIN v USING (id) LEFT JOIN t USING (name)
SELECT * EXCEPT (xs, m, s) FROM t
SELECT t.* EXCEPT (ID), u.amount FROM t JOIN u ON t.id = u.id
SELECT * EXCEPT (id, amount) FROM u JOIN v USING (id)
SELECT max + 1 AS more FROM (SELECT max(id) AS max, id + 1 FROM u GROUP BY id)
SELECT a, b FROM (SELECT id + 1, upper(name) FROM u) AS q(a, b)
WITH q(a, b) AS (SELECT count(*), max(id) + 1 FROM u) SELECT * FROM q
SELECT *, n AS m FROM (SELECT id + 1, 5 AS n FROM u)
SELECT * FROM t LATERAL VIEW explode(xs) e AS element
SELECT e.element, t.id FROM t LATERAL VIEW OUTER explode(xs) e AS element
SELECT element FROM t LATERAL VIEW explode(xs) AS element
SELECT p, e FROM t LATERAL VIEW posexplode(xs) q AS p, e
SELECT k, v FROM t LATERAL VIEW explode(m) q AS k, v
SELECT * FROM t LATERAL VIEW explode(xs) q
SELECT a.element, b.k FROM t LATERAL VIEW explode(xs) a AS element LATERAL VIEW explode(m) b AS k, v
SELECT x2.e FROM t, LATERAL explode(xs) AS x2(e)
SELECT * FROM u, LATERAL (SELECT u.amount + 1 AS more, city FROM v WHERE v.id = u.id) l
SELECT explode(xs) AS element FROM t
SELECT posexplode(xs) AS (p, e) FROM t
SELECT explode(xs) FROM t
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS q(n, name)
SELECT * FROM (VALUES (1, NULL), (2L, 'b')) q(n, name)
VALUES (1, 'a', DATE '2020-01-01')
VALUES 1, 2
SELECT * FROM VALUES (1), (2)
SELECT q.* FROM u AS q(a, b, c, d)
SELECT * FROM range(10)
SELECT * FROM range(10) AS r(n)
SELECT * FROM (SELECT id, name AS who FROM u)
SELECT q.who FROM (SELECT id, name AS who FROM u) q
SELECT a, b FROM (SELECT id, name FROM u) AS q(a, b)
(SELECT id FROM u LIMIT 1)
SELECT id, name FROM u UNION ALL SELECT id, city FROM v
SELECT id, name FROM u UNION SELECT n, name FROM t
SELECT id AS a FROM u EXCEPT SELECT id FROM v
SELECT id AS a FROM u INTERSECT SELECT n FROM t
SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 3L
SELECT 1 AS a, 'x' AS b UNION ALL (SELECT 2, 'y' UNION SELECT 3, 'z')
WITH q AS (SELECT id, name FROM u) SELECT * FROM q
WITH q(a, b) AS (SELECT id, name FROM u) SELECT * FROM q
WITH u AS (SELECT id AS x FROM u), y AS (SELECT * FROM u) SELECT * FROM y
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3), q AS (SELECT id FROM u) SELECT * FROM q
SELECT * FROM (WITH q AS (SELECT 1 AS a) SELECT * FROM q) JOIN u
SELECT count(*) FROM u
SELECT sum(amount), MAX(Name), min(u.id), count(id) FROM u
SELECT sum(s.Id), count(DISTINCT n) FROM t
SELECT 1, 'a', NULL
SELECT 1
SELECT id + 1 FROM u
SELECT upper(name) FROM u
SELECT CAST(id AS INT) FROM u
SELECT name, count(*) AS n FROM u GROUP BY name
SELECT name, sum(amount) AS total FROM u GROUP BY ALL HAVING total > 1
SELECT name, id, sum(amount) AS total FROM u GROUP BY ROLLUP (name, id)
SELECT amount * 2 AS a, a + 1 AS b, b || 'x' AS c FROM u
SELECT id AS amount, amount AS b FROM u
SELECT DISTINCT name FROM u
FROM u SELECT id
FROM u |> WHERE id > 1 |> SELECT id
FROM u |> EXTEND id + 1 AS more
FROM u |> AGGREGATE sum(amount) AS total GROUP BY name
FROM u |> DROP name
FROM u |> SET id = 1
TABLE u
SELECT * FROM u TABLESAMPLE (50 PERCENT)
SELECT * FROM u PIVOT (sum(amount) FOR name IN ('a', 'b'))
SELECT * FROM u UNPIVOT (val FOR col IN (id, k))
SELECT * FROM (u JOIN v ON u.id = v.id)
SELECT /*+ BROADCAST(v) */ u.id FROM u JOIN v ON u.id = v.id
SELECT s.* FROM t
SELECT struct(u.*) AS all FROM u
SELECT u.id, (SELECT max(city) FROM v WHERE v.id = u.id) AS city FROM u
SELECT (SELECT id) AS same FROM u
SELECT user AS who, current_date AS today FROM u
SELECT name, row_number() OVER (PARTITION BY name ORDER BY id) AS rn FROM u
SELECT coalesce(u.id, v.id) AS id, u.* EXCEPT (id) FROM u FULL JOIN v ON u.id = v.id
SELECT spark_catalog.default.far.id AS a FROM default.far JOIN u ON true
SELECT a.T.id AS x FROM u T JOIN (SELECT named_struct('id', 'x') AS T) a
SELECT * FROM u AS a JOIN u AS b USING (id)
SELECT transform(id, name) USING 'cat' AS (a, b) FROM u
SELECT *, amount * 2 AS twice FROM u ORDER BY id LIMIT 3
SELECT stack(2, 1, 2, 3, 4) AS (a, b)
"""


@pytest.fixture
def spark(application):
    """Yield a session in which the tables are empty views."""
    session = application.session()
    for name, ddl in TABLES.items():
        session.spark.createDataFrame([], ddl).createOrReplaceTempView(name)
    session.spark.sql("CREATE TABLE IF NOT EXISTS default.far (id STRING) USING parquet")
    yield session.spark
    session.spark.sql("DROP TABLE IF EXISTS default.far")
    session.close()


def expressions(text: str) -> list[str]:
    """Split a list of expressions at ``|``; ``||`` is the operator."""
    parts = text.replace("\n", " | ").replace("||", "\0").split("|")
    return [part.strip().replace("\0", "||") for part in parts if part.strip()]


def ours(query: str) -> list[tuple[str, str | None]] | None:
    """Return names and types as the compiler infers them."""
    tree = read_query(query).tree
    columns = output_columns(tree, {name: parse_ddl(ddl) for name, ddl in TABLES.items()}) if tree else None
    return None if columns is None else [(column.name, column.type) for column in columns]


def difference(spark, query: str) -> str | None:
    """Return the difference from Spark's columns, if any; queries that Spark rejects are not allowed here."""
    inferred = ours(query)
    try:
        true = spark.sql(query).dtypes
    except Exception as error:
        return f"{query}: {str(error)[:200]}"
    if inferred is None:
        return None
    agreed = [
        (name, kind if kind is not None else real) for (name, kind), (_, real) in zip(inferred, true, strict=False)
    ]
    return None if agreed == true and len(inferred) == len(true) else f"{query}: {inferred}, Spark {true}"


def test_schemas_of_tables_equal_those_of_spark(spark):
    for name, ddl in TABLES.items():
        assert parse_ddl(ddl) == tuple(Field(*column) for column in spark.table(name).dtypes)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_types_of_expressions(spark, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    queries = [f"SELECT {items} FROM t WINDOW w AS (ORDER BY n)" for items in together(expressions(EXPRESSIONS))]
    queries += [f"SELECT {items} FROM t" for items in together(expressions(AGGREGATES))]
    assert [d for d in (difference(spark, query) for query in queries) if d] == []


def test_names_and_types_of_queries(spark):
    assert [d for d in (difference(spark, query) for query in QUERIES.strip().splitlines()) if d] == []


def test_names_without_an_alias(spark):
    queries = [f"SELECT {e} FROM t" for e in expressions(EXPRESSIONS + AGGREGATES) if "OVER w" not in e]
    queries = [query for query in queries if ours(query) is not None]
    assert len(queries) > 20
    assert [d for d in (difference(spark, query) for query in queries) if d] == []


def together(items):
    """Return lists of items, since Spark takes longer for a query than for an expression."""
    named = [f"{item} AS c{number}" for number, item in enumerate(items)]
    return [", ".join(named[first : first + 20]) for first in range(0, len(named), 20)]
