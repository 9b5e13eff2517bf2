"""Comet, Spark's plugin for native execution, for the one Spark of a test process."""

from __future__ import annotations

import os

from support.maven import jars

PACKAGE = "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0"
COMET = "RIVET_TEST_COMET"
"""The environment variable with which tests run on Comet: ``RIVET_TEST_COMET=1 pytest tests/spark/test_values.py``."""

SETTINGS = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "2g",
}
"""What docs/comet.md has a profile say."""


def with_comet(config: dict[str, object]) -> dict[str, object]:
    """Return the settings of the tests' Spark, with Comet where the environment variable says so."""
    if COMET not in os.environ:
        return config
    declared = [str(config["spark.jars"])] if "spark.jars" in config else []
    return {**config, **SETTINGS, "spark.jars": ",".join([*declared, *jars(PACKAGE)])}
