"""Spark with Comet: a part of this folder's tests, in a process whose Spark has the plugin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.comet import COMET, PACKAGE
from support.maven import jars

HERE = Path(__file__).parent
SAME = [
    "test_write_strategies.py",
    "test_gate_isolation.py",
    "test_documented_errors.py",
    "test_separation.py::test_rules",
    "test_group_run.py",
]
"""What passes as on Spark alone; others of this folder can be tried: ``RIVET_TEST_COMET=1 pytest tests/spark/FILE``."""


@pytest.mark.nightly
def test_everything_is_the_same_on_comet():
    jars(PACKAGE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not nightly"]
    files = [str(HERE / name) for name in SAME]
    done = subprocess.run(
        [*command, f"{__file__}::test_comet_computes_the_queries", *files],
        env={**os.environ, COMET: "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "[100%]" in done.stdout


@pytest.mark.skipif(COMET not in os.environ, reason="it is about the Spark of a process with Comet")
def test_comet_computes_the_queries(application, tmp_path):
    with application.session() as session:
        session.spark.range(1000).selectExpr("id", "id % 7 AS k").write.parquet(str(tmp_path / "numbers"))
        numbers = session.spark.read.parquet(str(tmp_path / "numbers"))
        numbers.createTempView("numbers")
        plan = session.spark.sql("SELECT k, sum(id) AS s FROM numbers WHERE id > 5 GROUP BY k")
        text = plan._jdf.queryExecution().executedPlan().toString()
    for operator in ("CometFilter", "CometHashAggregate", "CometExchange"):
        assert operator in text, text
