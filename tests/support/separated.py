"""Queries separated into good rows and errors, compared with what Spark makes of each row of a table alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.engines.pyspark.spark_home import minor
from rivet_dagster.model.row_errors import QUERY_COLUMNS, NotSeparable
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate
from support.random_expressions import ROWS, alone

PLACE = QueryLocation("j", "joints/j.sql", 3)
OF_SPARK = {"REMAINDER_BY_ZERO": "DIVIDE_BY_ZERO"} if minor(pyspark.__version__) < (4, 1) else {}
"""What Spark 4.0 calls a condition that has a name of its own since."""


@contextmanager
def with_tables(session: PySparkSession, rows: Any) -> Iterator[PySparkSession]:
    """Yield the session with the tables t, which has ``rows`` (one by one: t1, t2...), and u."""
    with session.views(), session.separating_errors():
        session.register("t", rows)
        for row in range(1, len(ROWS) + 1):
            session.register(f"t{row}", rows.where(f"id = {row}"))
        session.register("u", session.spark.sql("SELECT * FROM VALUES (1, 0, 'one'), (3, 2, 'three') AS u(k, n, g)"))
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


def compared_queries(tables: PySparkSession, queries: Iterable[str]) -> int:
    """Compare queries of the table t; return how many of them Spark does not refuse."""
    number = 0
    for sql in queries:
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
        number += 1
    return number
