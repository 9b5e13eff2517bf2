"""Which parts of a query PostgreSQL and Spark read, and compute, alike, and what is written otherwise for it."""

import pytest
from sqlglot import parse_one

from rivet_dagster.sql.postgres.comparison import DIGITS, TRUNCATED, compare_with_spark
from rivet_dagster.sql.postgres.histories import rows_of_type


@pytest.mark.parametrize(
    "sql",
    [
        "select * from t",
        "select a.*, b.c as d from t as a, u b where a.id = b.id -- c\n and /* x */ a.x is not null;",
        "with a as (select id from t), b as (select id, max(x) as x from a join u using (id) group by 1 having "
        "count(*) > 1)\nselect * from b left join c on c.id = b.id and not b.x in (1, 2) order by x",
        "select coalesce(a, 0) as a, nullif(b, 1) as b, case when c like 'x%' then 'it''s' else d || 'e' end as c "
        "from t where a between 1 and 2 and b is distinct from c and exists (select 1 from u where u.id = t.id)",
        "select row_number() over (partition by a order by b desc nulls last) as n, lag(a) over (order by b nulls "
        "last, c nulls last) as p, sum(a) over (order by b nulls last rows between 1 preceding and current row) as s "
        "from t",
        "select count(*) filter (where a) as n, count(distinct b) as m, bool_or(c) as c from t",
        "select cast(a as numeric(10, 2)) as a, b::date as b, c::boolean as c, cast(round(d, 0) as bigint) as d from t",
        "select a from t union all select count(*) from u",
        "select (select max(x) from u) as m, a in (select min(b) from v) as n from t",
        "select a from (values (1, 'x'), (2, 'y')) as v(a, b) limit 3",
        "select now() - interval '7 days' as since, current_date as today, extract(year from d) as y from t",
        "select md5(lower(a) || substring(b from 1 for 2)) as h, concat_ws('-', a, left(b, 3)) as w from t",
        "select `Foo`, id from t where amount / 100.0 > 1.5",
    ],
)
def test_what_is_alike(sql):
    assert compare_with_spark(sql).differences == ()


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("a / 2 as x", "of integers it is an integer in PostgreSQL"),
        ("a::int as x", "PostgreSQL rounds a fraction, Spark cuts it off"),
        ("cast(a as bigint) as x", "round it first"),
        ("a::text as x", "Spark's is `string`"),
        ("cast(a as int8) as x", "Spark's is `bigint`"),
        ("cast(a as double precision) as x", "Spark's is `double`"),
        ("cast(a as float) as x", "Spark's is `double`"),
        ("cast(a as varchar(3)) as x", "nothing is cut off"),
        ("cast(a as numeric) as x", "DECIMAL(10, 0)"),
        ("a::timestamp as x", "timestamp_ntz"),
        ("cast(a as timestamp with time zone) as x", "Spark's is `timestamp`"),
        ("a::uuid as x", "is not known to be the same"),
        ('"A" as x', "in double quotes"),
        ("'a\\n' as x", "a backslash"),
        ("e'a' as x", "not known"),
        ("concat(a, b) as x", "the function concat"),
        ("jsonb_build_object('a', 1) as x", "the function jsonb_build_object"),
        ("a ->> 'b' as x", "not known"),
        ("a ~ 'b' as x", "not known"),
        ("a ^ 2 as x", "not known"),
        ("a[1] as x", "not known"),
        ("array[1] as x", "the function array"),
        ("count(*)", "needs a name"),
        ("lower(a)", "needs a name"),
        ("current_date - b as x", "a number of days"),
        ("extract(dow from a) as x", "extract of dow"),
        ("date_trunc('decade', a) as x", "by 'decade'"),
        ("interval '1 day 2 hours' as x", "one number and one unit"),
        ("substring(a from -1) as x", "cut"),
        ("trim(both 'x' from a) as x", "other characters"),
        ("row_number() over (order by b) as x", "NULLs are last in PostgreSQL, and first in Spark: say NULLS LAST"),
        ("row_number() over (order by b desc) as x", "say NULLS FIRST"),
    ],
)
def test_what_is_different(item, told):
    found = compare_with_spark(f"select\n  id,\n  {item}\nfrom t").differences
    assert any(told in each.message for each in found), found
    assert {each.line for each in found} <= {3, None}


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select a from t for update", "locks"),
        ("select distinct on (a) a from t", "DISTINCT ON"),
        ("with recursive x as (select 1 as n) select n from x", "recursive"),
        ("select a from only t", "only"),
        ("select a from t tablesample system (10)", "not known"),
        ("select a from t natural join u", "method"),
        ("select a from t order by b limit 1", "NULLS LAST"),
        ("select a from t group by rollup (a)", "ROLLUP"),
        ("select x.n from t cross join lateral generate_series(1, 3) as x(n)", "not known"),
        ("update t set a = 1", "is not one query"),
        ("select 1 as a; select 2 as a", "is not one query"),
        ("select (", "could not be read"),
        ("select a from", "could not be read"),
        ("", "is not one query"),
    ],
)
def test_queries_that_are_different(sql, told):
    found = compare_with_spark(sql).differences
    assert any(told in each.message for each in found), found


def test_what_is_the_same_but_for_details():
    compared = compare_with_spark("select avg(a) as a, round(b, 2) as b, date_trunc('month', c) as c from t")
    assert (compared.differences, compared.notes) == ((), (DIGITS, TRUNCATED))
    assert compare_with_spark("select a as text, b as bool from t").differences == ()


def test_of_aggregates_with_a_condition_any_value_alone_is_written_otherwise():
    text = "SELECT ANY_VALUE(row) FILTER (WHERE n = 1) AS a, COUNT(*) FILTER (WHERE n > 1) AS b, ANY_VALUE(n) AS c"
    assert rows_of_type(parse_one(text, dialect="databricks"), "kind").sql("postgres") == (
        "SELECT (ARRAY_AGG(row) FILTER(WHERE n = 1))[1] AS a, COUNT(*) FILTER(WHERE n > 1) AS b, ANY_VALUE(n) AS c"
    )
