"""The conformance suite on Spark in this process, with each kind of relation."""

import uuid

import pytest
from support.slow import sleeping
from support.spark import MASTER

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.relations import arrow_rows
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, JdbcTable
from rivet_dagster.testing.engine import EngineConformance


class TestClassicSpark(EngineConformance):
    endless = f"SELECT count(slept) AS v FROM (SELECT {sleeping('200L + n')} AS slept FROM numbers)"

    @pytest.fixture(autouse=True)
    def running(self, application):
        """Yield the one Spark; its tables and those of Derby are dropped after each test."""
        self.spark = application.session().spark

    def new_engine(self, check_interrupt=None):
        return PySparkEngine(EngineSpec("spark", "pyspark", options={"master": MASTER}), None, check_interrupt)

    def relation_of(self, kind, rows, folder):
        if kind in (CatalogTable, JdbcTable):
            target = self.target_of(kind, rows, folder)
            with self.new_engine().session() as session:
                session.write(session.from_value(rows), target)
            return target
        return super().relation_of(kind, rows, folder)

    def target_of(self, kind, rows, folder):
        name = f"t{uuid.uuid4().hex}"
        if kind is CatalogTable:
            self.spark.createDataFrame([], "id BIGINT, name STRING").write.saveAsTable(name)
            return CatalogTable(("spark_catalog", "default", name))
        if kind is JdbcTable:
            return JdbcTable(f"jdbc:derby:memory:{name};create=true", name)
        return super().target_of(kind, rows, folder)


@pytest.mark.parametrize("sees_local_files", [True, False], ids=["through files", "in memory"])
def test_rows_of_arrow_are_passed_in_chunks(application, monkeypatch, tmp_path, sees_local_files):
    """Through files, or as a frame each where Spark has no access to those of this machine; all else is as above."""
    monkeypatch.setattr(arrow_rows, "CHUNK", 1)
    monkeypatch.setattr("rivet_dagster.engines.pyspark.launch.ClassicAdapter.sees_local_files", sees_local_files)
    suite = TestClassicSpark()
    engine = suite.new_engine()
    with engine.session() as session:
        suite.test_each_kind_is_read_that_the_engine_says_it_reads(engine, session, tmp_path, ArrowRows)
        suite.test_values_of_arrow_are_frames(session)
