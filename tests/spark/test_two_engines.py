"""Projects on two engines: rows pass as planned, read in place or as Arrow."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.duckdb_engine import DuckDBSession
from support.folders import PROFILES, sink, source
from support.plugins import install

from rivet_dagster import compile_directory
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.relations import ArrowRows, Files

ORDERS = {"id": [1, 2, 3, 4], "customer": ["ada", "bob", "ada", None], "amount": [10, 20, 5, 7]}
CSV = "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n4,,7\n"
NOT_NULL = {"type": "not_null", "columns": ["customer"]}


def engines(other: str, **options) -> dict:
    spark = PROFILES["default"]["engines"][0]
    second = {"name": "duck", "type": other, "catalogs": ["lake"], **options}
    return {"default": {**PROFILES["default"], "engines": [spark, second], "default_engine": "spark"}}


def files(other: str) -> dict:
    """Return a project in which Spark cleans, the other engine sums, and Spark reads the sums."""
    return {
        "profiles.yaml": engines(other),
        "data/orders.csv": CSV,
        "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT"),
        "joints/clean.sql": "SELECT id, customer, amount FROM orders WHERE customer IS NOT NULL",
        "joints/sums.sql": "-- rivet:engine: duck\nSELECT customer, sum(amount) AS total FROM clean GROUP BY customer",
        "joints/ranked.sql": "SELECT customer, CAST(total AS BIGINT) AS total FROM sums",
        "sinks/report.yaml": sink("report", "ranked", assertions=[NOT_NULL]),
        "sinks/sums_table.yaml": sink("sums_table", "sums", engine="duck" if other == "duck" else "spark"),
    }


@pytest.fixture
def loads(monkeypatch):
    """Record what the sessions of Spark and of DuckDB load."""
    found = {"spark": Counter(), "duck": DuckDBSession.loaded}
    original = PySparkSession.load

    def load(self, relation, projection=None):
        found["spark"][type(relation)] += 1
        return original(self, relation, projection)

    monkeypatch.setattr(PySparkSession, "load", load)
    monkeypatch.setattr(DuckDBSession, "loaded", found["duck"])
    found["duck"].clear()
    return found


@pytest.fixture
def two_engines(project, monkeypatch, tmp_path):
    classes = {"duck": "support.duckdb_engine:DuckDBEngine", "arrow_only": "support.duckdb_engine:ArrowOnlyEngine"}
    install(monkeypatch, tmp_path / "site", engines=classes)
    return lambda other: project(files(other))


def expected() -> list[dict]:
    orders = pa.table(ORDERS)
    sums = orders.filter(pc.is_valid(orders["customer"])).group_by("customer").aggregate([("amount", "sum")])
    return [{"customer": row["customer"], "total": row["amount_sum"]} for row in sums.sort_by("customer").to_pylist()]


def crossings(plan) -> dict:
    return {(edge.joint, edge.consumer): (edge.engines, edge.method) for edge in plan.engine_boundaries}


def test_an_engine_that_reads_files_reads_what_spark_has_stored(two_engines, loads):
    made = two_engines("duck")
    assert crossings(made.assembly) == {
        ("clean", "sums"): (("spark", "duck"), "native_reference"),
        ("sums", "report"): (("duck", "spark"), "native_reference"),
        ("sums", "sums_table"): (("duck", "duck"), "native_reference"),
    }
    made.run_all()
    assert made.rows("report") == expected()
    assert [{**row, "total": int(row["total"])} for row in made.rows("sums_table")] == expected()
    assert set(loads["duck"]) == set(loads["spark"]) == {Files}


def test_an_engine_that_reads_no_files_gets_rows_as_arrow(two_engines, loads):
    made = two_engines("arrow_only")
    assert crossings(made.assembly) == {
        ("clean", "sums"): (("spark", "duck"), "arrow_passthrough"),
        ("sums", "report"): (("duck", "spark"), "native_reference"),
        ("sums", "sums_table"): (("duck", "spark"), "native_reference"),
    }
    made.run_all()
    assert made.rows("report") == expected()
    assert loads["duck"] == [ArrowRows]
    assert set(loads["spark"]) == {Files}


def test_a_sink_gets_rows_as_arrow_too(two_engines, loads):
    made = two_engines("arrow_only")
    made.write({"sinks/copy.yaml": sink("copy", "clean", engine="duck")})
    assert crossings(made.assembly)["clean", "copy"] == (("spark", "duck"), "arrow_passthrough")
    made.run_all()
    assert [row["id"] for row in made.rows("copy")] == [1, 2, 3]
    assert loads["duck"] == [ArrowRows, ArrowRows]


def test_unstored_rows_pass_between_engines_too(two_engines, loads):
    """A source that is not fused is read by its own engine, which passes its rows on."""
    made = two_engines("duck")
    made.write({
        "joints/clean.sql": "-- rivet:engine: duck\nSELECT id, customer, amount FROM orders WHERE customer IS NOT NULL",
        "joints/other.sql": "SELECT count(*) AS n FROM orders",
    })  # fmt: skip
    method = crossings(made.assembly)["orders", made.assembly.joint("clean").group]
    assert method == (("spark", "duck"), "arrow_passthrough")
    made.run_all()
    assert made.rows("report") == expected()
    assert loads["duck"][0] is ArrowRows


def test_rows_that_cannot_pass_between_engines_are_a_compile_error(two_engines, monkeypatch):
    made = two_engines("arrow_only")
    monkeypatch.setattr("support.duckdb_engine.ArrowOnlyEngine.reads", frozenset())
    errors = compile_directory(made.root).errors
    assert {error.code for error in errors} == {"RVT-328"}
    assert "cannot cross from the engine 'spark' to 'duck'" in str(errors[0])


def test_a_checked_joint_needs_an_engine_that_reads_its_rows_again(two_engines):
    made = two_engines("arrow_only")
    checked = "-- rivet:assert: not_null(customer)\n"
    made.write({"joints/sums.sql": checked + files("arrow_only")["joints/sums.sql"]})
    (error,) = compile_directory(made.root).errors
    assert (error.code, error.joint) == ("RVT-328", "sums")


def test_an_engine_with_another_dialect_does_not_compile(two_engines, monkeypatch):
    made = two_engines("duck")
    monkeypatch.setattr("support.duckdb_engine.DuckDBEngine.dialect", "duckdb")
    assert {error.code for error in compile_directory(made.root).errors} == {"RVT-329"}


def test_spark_and_duckdb_run_one_project(two_engines):
    """DuckDB sums what Spark has stored, by Spark's SQL and by its own, and Spark reads the sums."""
    made = two_engines("duckdb")
    assert crossings(made.assembly)["sums", "report"] == (("duck", "spark"), "native_reference")
    made.run_all()
    assert made.rows("report") == expected()
    made.write({
        "joints/sums.sql": "-- rivet:engine: duck\n-- rivet:dialect: duckdb\n"
        "FROM clean SELECT customer, sum(amount)::BIGINT AS total GROUP BY ALL",
    })  # fmt: skip
    made.run_all()
    assert made.rows("report") == expected()
