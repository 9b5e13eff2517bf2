"""The conformance suite on Spark in this process, with each kind of relation."""

import uuid

import pytest
from support.slow import sleeping
from support.spark import MASTER

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.relations import arrow_rows
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import CatalogTable, JdbcTable
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


class TestSpooledRows(TestClassicSpark):
    """More rows than one chunk are passed through files."""

    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch):
        monkeypatch.setattr(arrow_rows, "CHUNK", 1)


class TestChunksInMemory(TestSpooledRows):
    """Without access of Spark to this machine's files each chunk is a frame."""

    @pytest.fixture(autouse=True)
    def far_away(self, monkeypatch):
        monkeypatch.setattr("rivet_dagster.engines.pyspark.classic.ClassicAdapter.sees_local_files", False)
