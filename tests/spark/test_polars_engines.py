"""The engines ``polars`` and ``arrow`` beside Spark: files that each reads of the others, and projects on all."""

import json
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import PROFILES, sink, source
from support.stored_types import TABLE

from rivet_dagster.checks.contract import kind_of
from rivet_dagster.engines.arrow import ArrowEngine
from rivet_dagster.engines.polars import PolarsEngine
from rivet_dagster.model.check import Check
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files

CSV = "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n4,,7\n"
SPARK = PROFILES["default"]["engines"][0]
OTHERS = [
    {"name": "small", "type": "polars", "catalogs": ["lake"]},
    {"name": "copier", "type": "arrow", "catalogs": ["lake"]},
]
FILES = {
    "profiles.yaml": {"default": {**PROFILES["default"], "engines": [SPARK, *OTHERS], "default_engine": "spark"}},
    "data/orders.csv": CSV,
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT"),
    "joints/clean.sql": "SELECT id, customer, amount FROM orders WHERE customer IS NOT NULL",
    "joints/large.sql": "-- rivet:engine: small\n-- rivet:dialect: polars\nSELECT * FROM clean WHERE amount > 5",
    "joints/sums.sql": "-- rivet:engine: small\n-- rivet:dialect: polars\n"
    "SELECT customer, SUM(CAST(amount AS BIGINT)) AS total FROM large GROUP BY customer",
    "joints/doubled.py": "# rivet:engine: small\nimport polars as pl\n\n\ndef transform(clean):\n"
    "    return clean.to_spark().with_columns(twice=pl.col('amount') * 2)\n",
    "sinks/twice.yaml": sink("twice", "doubled", engine="copier"),
    "sinks/kept.yaml": sink("kept", "clean", engine="copier", write_strategy={"mode": "append"}),
    "joints/ranked.sql": "SELECT customer, total, rank() OVER (ORDER BY total DESC) AS place FROM sums",
    "sinks/report.yaml": sink("report", "ranked"),
}  # fmt: skip


@pytest.fixture
def spark(quick_session):
    quick_session.spark.conf.set("spark.sql.session.timeZone", "UTC")
    return quick_session


@pytest.fixture(params=[PolarsEngine, ArrowEngine], ids=lambda engine: engine.type)
def small(request):
    with request.param(EngineSpec("e", request.param.type)).session() as opened:
        yield opened


def folder(tmp_path, name):
    (tmp_path / name).mkdir()
    return Files("parquet", (str(tmp_path / name),))


def rows(session, relation):
    return sorted(repr(row) for row in session.to_arrow(session.load(relation)).to_pylist())


@pytest.mark.nightly(but=1)
def test_all_types_go_both_ways(small, spark, tmp_path):
    mine, theirs = folder(tmp_path, "mine"), folder(tmp_path, "theirs")
    small.write(small.from_value(TABLE), mine)
    spark.write(spark.load(ArrowRows(TABLE.schema, TABLE.to_reader)), theirs)
    assert small.columns(small.load(theirs)) == spark.columns(spark.load(mine))
    assert json.loads(small.schema(small.load(theirs))) == json.loads(spark.schema(spark.load(mine)))
    assert rows(small, theirs) == rows(spark, mine) == rows(small, mine) == rows(spark, theirs)
    both = spark.spark.read.option("mergeSchema", "true").parquet(mine.paths[0], theirs.paths[0])
    assert both.count() == 6


def test_keys_and_values_of_checks_are_those_of_spark(small, spark):
    numbers = [0.0, -0.0, float("nan"), float("nan"), None, None, 1.5, float("inf")]
    table = pa.table({"net": numbers, "half": pa.array(numbers, pa.float32())})
    found = []
    for each in (small, spark):
        each.register("t", each.from_value(table))
        sql = [kind_of(Check(kind="unique", name="c", phase="audit", options={"columns": c})).violations("t")
               for c in (("net",), ("half",), ("net", "half"))]  # fmt: skip
        accepted = "SELECT COUNT_IF(NOT `net` IN (:a, :b)) AS v FROM `t`"
        found.append([*map(each.rows, sql), each.rows(accepted, {"a": 0.0, "b": 1.5})])
    assert found[0] == found[1]


def test_one_project_runs_on_spark_polars_and_arrow(project):
    made = project(FILES)
    crossings = {(edge.joint, edge.consumer): (edge.engines, edge.method) for edge in made.assembly.engine_boundaries}
    assert crossings["clean", "sums"] == (("spark", "small"), "native_reference")
    assert crossings["sums", "report"] == (("small", "spark"), "native_reference")
    assert crossings["doubled", "twice"] == (("small", "copier"), "native_reference")
    assert made.assembly.group("sums").joints == ("large", "sums")
    made.run_all()
    assert made.rows("report") == [
        {"customer": "ada", "total": 10, "place": 2},
        {"customer": "bob", "total": 20, "place": 1},
    ]
    assert [row["twice"] for row in made.rows("twice")] == [20, 40, 10]
    made.run("kept")
    assert Counter(row["id"] for row in made.rows("kept")) == {1: 2, 2: 2, 3: 2}


@pytest.mark.parametrize("chosen", ["small", "copier"])
def test_a_gate_that_fails_publishes_nothing(project, chosen):
    ids = [{"type": "unique", "columns": ["customer"]}, {"type": "not_null", "columns": ["id"]}]
    made = project({**FILES, "sinks/kept.yaml": sink("kept", "clean", engine=chosen, assertions=ids)})
    made.run("clean")
    result = made.run("kept")
    assert result.gate_failed
    assert {r.check.name: (r.passed, r.violations) for r in result.checks} == {
        "unique_customer": (False, 1),
        "not_null_id": (True, 0),
    }
    (sample,) = next(r for r in result.checks if not r.passed).samples
    assert (sample["customer"], sample["rows_of_this_key"]) == ("ada", 2)
    assert not (made.root / "lake" / "kept").exists()
    assert made.versions("kept") == []


_LARGE = """
import resource, sys
from rivet_dagster.engines.polars import PolarsEngine
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files

with PolarsEngine(EngineSpec("small", "polars")).session() as session:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    session.register("orders", session.load(Files("parquet", (sys.argv[1],))))
    frame = session.query_in("polars", "WITH a AS (SELECT id, text, id * 2 AS twice FROM orders) "
                             "SELECT id, twice, text FROM a WHERE id % 5 <> 0")
    session.write(frame, Files("parquet", (sys.argv[2],)))
    session.register("written", session.load(Files("parquet", (sys.argv[2],))))
    print(session.rows("SELECT count(*) AS n FROM written")[0]["n"])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.nightly
def test_five_million_rows_pass_in_bounded_memory(tmp_path):
    """The rows are 5 GB in memory, of which a stream holds a part."""
    text = "x" * 1000
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(tmp_path / "orders.parquet", schema) as writer:
        for start in range(0, 5_000_000, 20_000):
            ids = range(start, start + 20_000)
            writer.write_table(pa.table({"id": pa.array(ids), "text": [f"{n}{text}" for n in ids]}, schema=schema))
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", _LARGE, str(tmp_path / "orders.parquet"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    count, megabytes = map(int, done.stdout.split())
    assert count == 4_000_000
    assert megabytes < 1500
    found = pq.read_table(tmp_path / "out", columns=["id", "twice"])
    assert pa.compute.sum(found["twice"]).as_py() == 2 * sum(n for n in range(5_000_000) if n % 5)
