"""The condition that a site computes for a row is the one that Spark raises when it evaluates that row alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.spark import WITH_CODE, WITHOUT_CODE
from support.spark_errors import SETTINGS, condition_of

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.sql.parsing.dialect import parse_expression
from rivet_dagster.sql.row_errors.site import Site, fill, raises
from rivet_dagster.sql.row_errors.site_rules import site_of

RAISING = r"""
a + b                         | 2147483647 | 1
a + b                         | 9223372036854775807 | 1L
a + b                         | 127Y | 1Y
a - b                         | -32768S | 1S
a * b                         | 9223372036854775807 | 2L
a * b                         | 100Y | 100Y
a + b                         | 99999999999999999999999999999999999999BD | 1BD
a - b                         | -99999999999999999999999999999999999999BD | 1BD
a * b                         | 99999999999999999999BD | 99999999999999999999BD
a + b                         | 'x' | 1
a + b                         | 1.5D | 'x'
a * b                         | '1.5' | 2
a - b                         | 'x' | 1.5BD
a - b                         | 'x' | DATE'2026-01-01'
a + b                         | 'x' | INTERVAL '1' DAY
a + b                         | DATE'2026-01-01' | INTERVAL '178956970' YEAR
a + b                         | INTERVAL '178956970' YEAR | INTERVAL '178956970' YEAR
a + b                         | INTERVAL '106751991' DAY | INTERVAL '106751991' DAY
a - b                         | -INTERVAL '106751991' DAY | INTERVAL '106751991' DAY
a + b                         | make_interval(178956970) | make_interval(178956970)
a + b                         | TIMESTAMP'2026-01-01 00:00:00' | INTERVAL '106751991' DAY
a * b                         | INTERVAL '178956970' YEAR | 100
a * b                         | INTERVAL '106751991' DAY | 100
a / b                         | 1 | 0
a / b                         | 1.5D | 0D
a / b                         | 1.5BD | 0.00BD
a / b                         | '1' | 0
a / b                         | 'x' | 0
a / b                         | 1 | '0'
a / b                         | 1 | 'x'
a / b                         | 99999999999999999999999999999999999999BD | 0.0001BD
a / b                         | INTERVAL '1' DAY | 0
a / b                         | INTERVAL '1' YEAR | 0.0BD
a / b                         | INTERVAL '1' YEAR | 1e-300D
a / 0                         | 1
a div b                       | 1 | 0
a div b                       | -9223372036854775808 | -1L
a div b                       | 99999999999999999999999999999999999999BD | 0.00001BD
a div b                       | INTERVAL '1' DAY | INTERVAL '0' DAY
a % b                         | 1 | 0
a % b                         | 1.5D | 0D
a % b                         | 1.5BD | 0BD
a % b                         | 'x' | 1
mod(a, b)                     | 1 | 0
pmod(a, b)                    | 1 | 0
pmod(a, b)                    | 'x' | 1
-a                            | CAST(-128 AS TINYINT)
-a                            | CAST(-2147483648 AS INT)
-a                            | CAST(-9223372036854775808 AS BIGINT)
-a                            | 'x'
-a                            | -99999999999999999999999999999999999999BD
negative(a)                   | CAST(-2147483648 AS INT)
abs(a)                        | CAST(-9223372036854775808 AS BIGINT)
abs(a)                        | -99999999999999999999999999999999999999BD
abs(a)                        | 'x'
CAST(a AS INT)                | 'x'
CAST(a AS INT)                | ''
CAST(a AS INT)                | 1e30D
CAST(a AS INT)                | DOUBLE('NaN')
CAST(a AS INT)                | 99999999999L
CAST(a AS INT)                | 99999999999BD
CAST(a AS INT)                | TIMESTAMP'9999-01-01 00:00:00'
CAST(a AS INT)                | parse_json('"x"')
CAST(a AS BIGINT)             | 1e30BD
CAST(a AS TINYINT)            | 1000
CAST(a AS SMALLINT)           | INTERVAL '99999' DAY
CAST(a AS DOUBLE)             | 'x'
CAST(a AS FLOAT)              | '1,5'
CAST(a AS BOOLEAN)            | 'x'
CAST(a AS DATE)               | '2026-02-30'
CAST(a AS TIMESTAMP)          | 'x'
CAST(a AS TIMESTAMP)          | 1e300D
CAST(a AS TIMESTAMP)          | DOUBLE('NaN')
CAST(a AS TIMESTAMP_NTZ)      | 'x'
CAST(a AS DECIMAL(3, 1))      | 'x'
CAST(a AS DECIMAL(3, 1))      | 'NaN'
CAST(a AS DECIMAL(3, 1))      | '1000'
CAST(a AS DECIMAL(3, 1))      | ' 1e3 '
CAST(a AS DECIMAL(3, 1))      | '1e300'
CAST(a AS DECIMAL(3, 1))      | 1000
CAST(a AS DECIMAL(3, 1))      | 1000D
CAST(a AS DECIMAL(3, 1))      | 99.99BD
CAST(a AS DECIMAL(1, 1))      | true
CAST(a AS INTERVAL DAY)       | 'x'
CAST(a AS INTERVAL YEAR)      | 'x'
CAST(a AS INTERVAL DAY)       | 9223372036854775807
CAST(a AS ARRAY<INT>)         | array('1', 'x')
CAST(a AS ARRAY<TINYINT>)     | array(1000)
a :: int                      | 'x'
int(a)                        | 'x'
bigint(a)                     | 'x'
decimal(a)                    | 99999999999
date(a)                       | 'x'
timestamp(a)                  | 'x'
a < 5                         | 'x'
a = b                         | 'x' | 1
a <=> b                       | 'x' | 1
a <> b                        | DATE'2026-01-01' | 'x'
a >= b                        | true | 'x'
a = 'x'                       | 5
a IN (1, 2)                   | 'x'
a IN ('1', 'x')               | 5
a NOT IN (1, 2)               | 'x'
a BETWEEN 1 AND 3             | 'x'
equal_null(a, b)              | 'x' | 1
nullif(a, b)                  | 'x' | 1
a AND b                       | 'x' | true
NOT a                         | 'x'
a IS TRUE                     | 'x'
coalesce(a, b)                | 'x' | 1
nvl(a, 0)                     | 'x'
coalesce(a, b)                | array('x') | array(1)
if(b, a, 1)                   | 'x' | true
nvl2(b, a, 1)                 | 'x' | 1
CASE WHEN b THEN a ELSE 1 END | 'x' | true
CASE a WHEN 1 THEN 2 END      | 'x'
array(a, 1)                   | 'x'
a & 1                         | 'x'
a << b                        | 1 | 'x'
a[b]                          | array(1) | 5
a[b]                          | array(1) | -1
a[b]                          | map(1, 1) | 'x'
a[b]                          | map(1, 1) | 99999999999
element_at(a, b)              | array(1) | 5
element_at(a, b)              | array(1) | 0
try_element_at(a, 0)          | array(1)
elt(a, 'x', 'y')              | 3
elt(a, 'x', 'y')              | 'x'
get(a, b)                     | array(1) | 'x'
to_date(a)                    | 'x'
to_date(a, 'yyyy-MM-dd')      | '2026-1-1'
to_timestamp(a)               | 'x'
to_timestamp(a, 'yyyy')       | 'x'
to_timestamp_ntz(a, 'yyyy')   | 'x'
to_timestamp_ltz(a)           | 'x'
unix_timestamp(a)             | 'x'
unix_timestamp(a, 'yyyy')     | 'x'
to_unix_timestamp(a, 'yyyy')  | 'x'
from_unixtime(a)              | 'x'
from_unixtime(a, b)           | 1 | 'bb'
date_format(a, 'yyyy')        | 'x'
date_format(a, b)             | DATE'2026-01-01' | 'YYYY'
date_format(a, b)             | DATE'2026-01-01' | 'bb'
to_char(a, b)                 | DATE'2026-01-01' | 'bb'
date_add(a, 1)                | 'x'
date_add(a, b)                | DATE'2026-01-01' | 'x'
date_sub(a, 1)                | 'x'
datediff(a, b)                | 'x' | DATE'2026-01-01'
date_trunc('month', a)        | 'x'
trunc(a, 'month')             | 'x'
year(a)                       | 'x'
month(a)                      | 'x'
dayofweek(a)                  | 'x'
quarter(a)                    | 'x'
hour(a)                       | 'x'
extract(day FROM a)           | 'x'
date_part('day', a)           | 'x'
last_day(a)                   | 'x'
add_months(a, b)              | DATE'2026-01-01' | 2147483647
add_months(a, 1)              | 'x'
months_between(a, b)          | 'x' | DATE'2026-01-01'
next_day(a, b)                | DATE'2026-01-01' | 'x'
next_day(a, 'MO')             | 'x'
make_date(a, b, 1)            | 2026 | 13
make_date(a, b, 1)            | 2026 | 'x'
make_date(a, b, 1)            | 2026 | 99999999999L
make_timestamp(a, 13, 1, 1, 1, b) | 2026 | 1
make_timestamp(a, 1, 1, 1, 1, b)  | 2026 | 60.5
make_timestamp(a, 1, 1, 1, 1, b)  | 2026 | 61
make_timestamp(a, 1, 1, 1, 1, 1, b) | 2026 | 'x'
make_timestamp_ntz(a, 13, 1, 1, 1, b) | 2026 | 1
make_interval(a, a)           | 2147483647
make_interval(0, 0, 0, 0, 0, 0, a) | 1e12BD
make_dt_interval(a)           | 2147483647
make_ym_interval(a, a)        | 2147483647
timestampadd(YEAR, a, b)      | 2147483647 | TIMESTAMP'2026-01-01 00:00:00'
timestampadd(DAY, a, b)       | 1 | 'x'
timestamp_seconds(a)          | 9223372036854775807
timestamp_seconds(a)          | 1.123456789BD
timestamp_millis(a)           | 9223372036854775807
from_utc_timestamp(a, b)      | TIMESTAMP'2026-01-01 00:00:00' | 'x'
from_utc_timestamp(a, 'UTC')  | 'x'
to_utc_timestamp(a, b)        | TIMESTAMP'2026-01-01 00:00:00' | 'x'
convert_timezone(a, b, TIMESTAMP_NTZ'2026-01-01 00:00:00') | 'UTC' | 'x'
sqrt(a)                       | 'x'
exp(a)                        | 'x'
power(a, b)                   | 2 | 'x'
log10(a)                      | 'x'
log(a, b)                     | 'x' | 2
ln(a)                         | 'x'
round(a, -1)                  | 127Y
round(a, -1)                  | 9223372036854775807
round(a, -1)                  | 99999999999999999999999999999999999999BD
round(a)                      | 'x'
bround(a, -1)                 | CAST(2147483647 AS INT)
ceil(a)                       | 'x'
ceil(a, 1)                    | 1e300D
ceil(a, 1)                    | 'x'
conv(a, 10, 16)               | '9999999999999999999999'
conv(a, 10, b)                | '9' | 'x'
bin(a)                        | 1e30D
char(a)                       | 1e30D
hex(a)                        | 1e30D
factorial(a)                  | 'x'
bit_get(a, b)                 | 1 | 64
width_bucket(a, 1, 2, b)      | 1D | 'x'
substring(a, b)               | 'x' | 'y'
substring(a, b, 1)            | 'x' | 1e30D
left(a, b)                    | 'x' | 'y'
repeat(a, b)                  | 'x' | 'y'
lpad(a, b)                    | 'x' | 'y'
locate('a', a, b)             | 'x' | 'y'
length(a) + b                 | 'x' | 2147483647
split(a, b)                   | 'x' | '('
split_part(a, ',', b)         | 'x' | 0
substring_index(a, ',', b)    | 'x' | 'y'
a LIKE b                      | 'x' | concat('a', chr(92))
a LIKE b                      | 'x' | concat(chr(92), 'a')
a LIKE b ESCAPE '/'           | 'x' | 'a/'
a LIKE b ESCAPE '/'           | 'x' | '/a'
a RLIKE b                     | 'x' | '('
regexp_replace(a, b, 'y')     | 'x' | '('
regexp_replace(a, '(x)', b)   | 'x' | '$9'
regexp_replace(a, '(x)', '$2') | 'x'
regexp_extract(a, b)          | 'x' | '('
regexp_extract(a, b)          | 'x' | 'x'
regexp_extract(a, '(x)', b)   | 'x' | 2
regexp_extract_all(a, '(x)', b) | 'x' | 2
regexp_count(a, b)            | 'x' | '('
regexp_instr(a, b)            | 'x' | '('
regexp_substr(a, b)           | 'x' | '('
decode(a, b)                  | X'FF' | 'utf-8'
decode(a, b)                  | X'FF' | 'x'
decode(a, 1, 2)               | 'x'
encode(a, b)                  | 'é' | 'us-ascii'
encode(a, b)                  | 'é' | 'x'
unbase64(a)                   | 'a'
validate_utf8(a)              | CAST(X'FF' AS STRING)
format_string('%d', a)        | 'x'
format_number(a, b)           | 1 | '.#.#.#'
sha2(a, b)                    | 'x' | 'y'
to_number(a, '999')           | 'x'
to_binary(a, 'hex')           | 'zz'
url_decode(a)                 | '%zz'
parse_url(a, 'HOST')          | 'a b'
parse_json(a)                 | '{'
from_json(a, 'x INT', map('mode', 'FAILFAST')) | '{'
from_csv(a, 'x INT', map('mode', 'FAILFAST'))  | 'a'
variant_get(a, '$.x', 'int')  | parse_json('{"x": "y"}')
variant_get(a, b, 'int')      | parse_json('{"x": "y"}') | 'x'
xpath_int(a, 'b')             | '<a'
aes_encrypt(a, b)             | 'x' | 'y'
aes_decrypt(a, b)             | X'00' | '0000111122223333'
assert_true(a)                | false
raise_error(a)                | 'x'
map(a, 1)                     | CAST(NULL AS INT)
sequence(1, a, b)             | 5 | -1
sequence(1, a)                | 9223372036854775807
array_insert(a, b, 1)         | array(1) | 0
slice(a, b, 1)                | array(1) | 0
slice(a, 1, b)                | array(1) | -1
sequence(a, b)                | 'x' | 5
sequence(DATE'2026-01-01', DATE'2026-02-01', a) | INTERVAL '0' DAY
nullifzero(a)                 | 'x'
zeroifnull(a)                 | 'x'
array_sort(a, (x, y) -> b)    | array(1, 2) | CAST(NULL AS INT)
transform(a, x -> 1 / x)      | array(1, 0)
transform(a, x -> 1 / CAST(x AS INT)) | array('1', '0', 'x')
transform(a, x -> 1 / CAST(x AS INT)) | array('1', 'x', '0')
filter(a, x -> x % 0 > 1)     | array(1)
exists(a, x -> CAST(x AS INT) > 1)  | array('x')
forall(a, x -> x > 1)         | array('x')
zip_with(a, a, (x, y) -> x / y)     | array(0)
aggregate(a, 0, (s, x) -> if(x > 1, s, 0)) | array('x')
transform_values(a, (k, v) -> 1 / v) | map(1, 0)
to_date(a, b)                 | 'x' | 'yyyy'
to_date(a, b)                 | 'x' | 'E'
to_timestamp(a, b)            | 'x' | 'NaN'
to_timestamp(a)               | 1e300D
date_format(a, b)             | DATE'2026-01-01' | '{'
date_format(a, b)             | DATE'2026-01-01' | 'qqqqq'
date_format(a, b)             | DATE'2026-01-01' | '\''
unix_timestamp(a, b)          | 'x' | 'e'
make_timestamp(2026, 1, 1, 1, 1, a) | 99999999999L
make_timestamp(2026, 1, 1, 1, 1, a) | '1e400'
make_timestamp(2026, 1, 1, 1, 1, a) | 'x'
to_char(a, '999')             | 'NaN'
to_char(a, '999')             | '1e400'
to_char(a, 'utf-8')           | X'FF'
to_number(a, '999')           | ''
parse_url('http://a.b/?c=d', 'QUERY', a) | '('
aes_decrypt(a, b)             | X'00' | 'y'
aes_encrypt(a, 'y', b)        | 'x' | 'y'
aes_encrypt(a, '0000111122223333', b) | 'x' | 'y'
aes_encrypt(a, '0000111122223333', 'CBC', 'DEFAULT', b)  | 'x' | X'00'
aes_encrypt(a, '0000111122223333', 'ECB', 'DEFAULT', b)  | 'x' | X'00'
aes_encrypt(a, '0000111122223333', 'CBC', 'DEFAULT', '', b) | 'x' | X'00'
log2(a)                       | 'x'
aggregate(a, 2147483646, (s, x) -> s + x)           | array(1, 1)
aggregate(a, 0, (s, x) -> s + x, s -> 1 / s)        | array(1, -1)
aggregate(a, 0, (s, x) -> CAST(s + 1 / x AS INT))   | array(1, 0)
regexp_substr(a, b)           | 'y' | '('
nullif(1 / a, 1)              | 0
(1 / a) BETWEEN 0 AND 1       | 0
""".strip().splitlines()
"""Expressions, and a row of values for ``a`` and ``b``, each with which the evaluation raises."""


@pytest.fixture(scope="module")
def spark(application: PySparkEngine) -> Iterator[SparkSession]:
    """Yield a session in which rows of literals are evaluated by jobs, not by the optimizer."""
    session = application.session()
    for name, value in (SETTINGS | WITH_CODE).items():
        session.spark.conf.set(name, value)
    yield session.spark
    session.close()


@pytest.fixture(scope="module")
def computed(spark: SparkSession) -> dict[str, tuple[str | None, str | None]]:
    """Return the condition and the message of each case by its line, computed by one query for many of them.

    Spark compiles none of these, whose code is long and runs once, as it does compile the queries that raise.
    """
    results = {}
    uncompiled = spark.newSession()
    for name, value in (SETTINGS | WITHOUT_CODE).items():
        uncompiled.conf.set(name, value)
    for batch in (RAISING[i : i + 40] for i in range(0, len(RAISING), 40)):
        query = " UNION ALL ".join(f"SELECT {i} AS i, {_error(*_case(line))}" for i, line in enumerate(batch))
        results.update({batch[row[0]]: (row[1], row[2]) for row in uncompiled.sql(query).collect()})
    return results


@pytest.mark.nightly(but=40)
@pytest.mark.parametrize("line", RAISING)
def test_condition(line: str, spark: SparkSession, computed: dict[str, tuple[str | None, str | None]]) -> None:
    """The condition is Spark's, and the node may raise by its guard."""
    expression, rows = _case(line)
    with pytest.raises((PySparkException, Py4JError)) as error:
        spark.sql(f"SELECT {expression} AS x FROM {rows}").collect()
    condition, message = computed[line]
    assert condition == condition_of(error.value)
    assert message


def _case(line: str) -> tuple[str, str]:
    """Return the expression of a line, and the relation of its row."""
    expression, *values = (part.strip() for part in line.split(" | "))
    return expression, f"VALUES ({', '.join(values)}) AS t({', '.join('ab'[: len(values)])})"


def _error(expression: str, rows: str) -> str:
    """Return the condition and the message of the innermost site that raises: its operands do not."""
    conditions, messages = [], []
    root = parse_expression(expression)
    for node in reversed(list(root.walk())):
        site = site_of(node)
        if isinstance(site, Site):
            texts = [operand.sql("databricks") for operand in site.operands]
            text = expression if node is root else node.sql("databricks")
            when = f"WHEN {raises(text)} AND ({fill(site.guard, texts) or 'true'})"
            conditions.append(f"{when} THEN {fill(site.condition, texts)}")
            messages.append(f"{when} THEN {fill(site.message, texts)}")
    if not conditions:
        return f"NULL, NULL FROM {rows}"
    return f"CASE {' '.join(conditions)} END, CASE {' '.join(messages)} END FROM {rows}"
