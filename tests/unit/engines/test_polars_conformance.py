"""The conformance suite on the engines ``polars`` and ``arrow``, which run no SQL of Spark's."""

import pytest

from rivet_dagster.engines.arrow import ArrowEngine
from rivet_dagster.engines.polars import PolarsEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance


class TestPolars(EngineConformance):
    runs_spark_sql = False
    tells_lines = False  # of the error of a query without a relation; with one the line is told

    def new_engine(self, check_interrupt=None):
        return PolarsEngine(EngineSpec("small", "polars"), check_interrupt=check_interrupt)

    def query(self, session, sql):
        return session.query_in("polars", sql)


class TestArrow(EngineConformance):
    runs_spark_sql = False

    def new_engine(self, check_interrupt=None):
        return ArrowEngine(EngineSpec("copier", "arrow"), check_interrupt=check_interrupt)


@pytest.mark.parametrize("suite", [TestPolars, TestArrow])
def test_sql_of_spark_is_refused_with_a_remedy(suite):
    with suite().new_engine().session() as session, pytest.raises(RivetError, match=r"RVT-329 .* has Mul") as caught:
        session.query("SELECT id * 2 AS double FROM orders")
    assert ("dialect: polars" in caught.value.diagnostics[0].remediation) == (suite is TestPolars)
