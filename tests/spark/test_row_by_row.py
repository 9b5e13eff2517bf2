"""Chains of joints of which each row comes from one row: one pass finds the errors that each joint has by itself."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.errors import PySparkException
from support.joint_by_joint import QUICK
from support.random_expressions import COLUMNS, ROWS, condition, number
from support.spark import WITH_CODE
from support.torture import examples

from rivet_dagster.compiler.group_query import Cte, FusedQuery, GroupQuery
from rivet_dagster.compiler.row_errors import separate_errors
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.row_errors import QUERY_COLUMNS
from rivet_dagster.sql.row_errors.error_query import QueryLocation

REST = "b, s, ds, d, m, xs, f"


@pytest.fixture(scope="module")
def tables(application: PySparkEngine) -> Iterator[PySparkSession]:
    """Yield a session that makes code of queries, with the table t."""
    with application.session() as session, session.views(), session.separating_errors():
        for name, value in WITH_CODE.items():
            session.spark.conf.set(name, value)
        session.register("t", session.spark.sql(f"SELECT * FROM VALUES {', '.join(ROWS)} AS t({COLUMNS})"))
        yield session


def group(*texts: str) -> GroupQuery:
    """Return the query of the joints j1, j2..., each of which reads the one before it, and the first one t."""
    upstream = ["t", *(f"j{number}" for number in range(1, len(texts)))]
    ctes = [Cte(f"j{number}", text, (upstream[number - 1],)) for number, text in enumerate(texts, 1)]
    places = {cte.joint: (QueryLocation(cte.joint, f"joints/{cte.joint}.sql", 2),) * 2 for cte in ctes}
    return separate_errors(GroupQuery((ctes[-1].joint,), tuple(ctes)), places, ["id"])


def errors(session: PySparkSession, query: FusedQuery | None) -> Counter[tuple[object, ...]]:
    """Return all errors of a query."""
    assert query is not None
    rows = session.spark.sql(query.sql)
    assert tuple(rows.columns) == QUERY_COLUMNS
    return Counter(map(tuple, rows.collect()))


def compared(session: PySparkSession, query: GroupQuery) -> Counter[tuple[object, ...]]:
    """Return the errors of a chain, which are those of its joints one by one."""
    one_by_one = replace(query, ctes=tuple(replace(cte, row_by_row=None) for cte in query.ctes))
    found = errors(session, query.errors())
    assert found == errors(session, one_by_one.errors()), query.text()
    return found


def scans(session: PySparkSession, query: FusedQuery | None) -> int:
    """Return how often the plan of a query reads the table."""
    assert query is not None
    plan: str = session.spark.sql(query.sql)._jdf.queryExecution().optimizedPlan().toString()
    return plan.count("LocalRelation")


@pytest.mark.nightly
def test_errors_travel_with_their_rows(tables: PySparkSession) -> None:
    query = group(
        "SELECT o.id, o.s, o.b, CAST(o.ds AS DATE) AS day FROM t AS o",
        "SELECT *, id / b AS ratio FROM j1 WHERE id < 7",
        "SELECT id, s, ratio, day FROM j2",
        "SELECT j3.*, CAST(s AS INT) + 1 AS n FROM j3 WHERE ratio IS NULL OR 10 / id > 1",
    )
    found = compared(tables, query)
    sites = Counter((error[0], error[2], error[4]) for error in found.elements())
    assert sites == {
        ("j1", "CAST(o.ds AS DATE)", 2): 3,
        ("j2", "id / b", 2): 1,
        ("j4", "CAST(s AS INT)", 2): 1,
    }
    assert {error[7] for error in found} == {'{"id":2}', '{"id":3}', '{"id":4}', '{"id":5}', '{"id":6}'}
    assert scans(tables, query.errors()) == 1
    assert scans(tables, query.good()[0]) == 1


@pytest.mark.nightly
def test_a_joint_with_two_readers_is_asked_by_itself(tables: PySparkSession) -> None:
    first = "SELECT id, s, CAST(ds AS DATE) AS day FROM t"
    ctes = (
        Cte("a", first, ("t",)),
        Cte("b", "SELECT id, CAST(s AS INT) AS n FROM a", ("a",)),
        Cte("c", "SELECT b.id, 1 / n AS m FROM b", ("b",)),
        Cte("d", "SELECT c.id, m, day FROM c JOIN a ON c.id = a.id", ("a", "c")),
    )
    places = {cte.joint: (QueryLocation(cte.joint),) * 2 for cte in ctes}
    query = separate_errors(GroupQuery(("d",), ctes), places)
    assert {error[0] for error in compared(tables, query)} == {"a", "b"}


def chain(seed: int) -> GroupQuery:
    """Return a random chain of up to four joints."""
    r = random.Random(seed)
    texts = []
    for position in range(r.randint(2, 4)):
        where = f" WHERE {condition(r, 2)}" if r.random() < 0.4 else ""
        name = "t" if position == 0 else f"j{position}"
        item = f"CAST({number(r, 2)} AS INT) AS a" if r.random() < 0.8 else "a"
        texts.append(f"SELECT id, {item}, {REST} FROM {name}{where}")
    return group(*texts)


@pytest.mark.nightly
def test_random_chains(tables: PySparkSession) -> None:
    for name, value in QUICK.items():
        tables.spark.conf.set(name, value)
    several = 0
    for seed in range(examples(4, 300)):
        query = chain(seed)
        if query.not_separable() is not None or query.errors() is None or not accepted(tables, query):
            continue
        several += len({error[0] for error in compared(tables, query)}) > 1
    assert several >= examples(1, 50)


def accepted(session: PySparkSession, query: GroupQuery) -> bool:
    """Return whether Spark accepts the types of a query."""
    try:
        return bool(session.spark.sql(query.text()).schema)
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("DATATYPE_MISMATCH"):
            raise
        return False
