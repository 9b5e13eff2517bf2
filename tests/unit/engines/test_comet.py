"""What doctor says of an engine whose Spark has Comet."""

import pytest

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.comet import PLUGIN, examine_comet
from rivet_dagster.model.profile import EngineSpec

JAR = "/jars/comet-spark-spark4.1_2.13-1.2.0.jar"
MEMORY = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "2g"}


@pytest.mark.parametrize(
    ("config", "status", "text"),
    [
        ({"spark.jars": JAR, **MEMORY}, "ok", "Comet 1.2.0 for Spark 4.1, with 2g outside of the heap"),
        (
            {"spark.jars.packages": "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0", **MEMORY},
            "ok",
            "Comet 1.2.0 for Spark 4.1",
        ),
        ({"spark.driver.extraClassPath": f"/a.jar:{JAR}", **MEMORY}, "ok", "Comet 1.2.0 for Spark 4.1"),
        (MEMORY, "fail", "neither `packages` nor `jars` has its jar"),
        ({"spark.jars": "/jars/comet-spark-spark4.0_2.13-1.2.0.jar", **MEMORY}, "fail", "Comet for Spark 4.0"),
        ({"spark.jars": JAR}, "warn", "Comet is off"),
        ({"spark.jars": JAR, **MEMORY, "spark.memory.offHeap.enabled": "false"}, "warn", "Comet is off"),
        ({"spark.jars": JAR, **MEMORY, "spark.memory.offHeap.size": "0"}, "warn", "Comet is off"),
    ],
)
def test_jar_version_and_memory_are_examined(config, status, text):
    (finding,) = examine_comet("engine spark", {"spark.plugins": f"other.Plugin,{PLUGIN}", **config}, "4.1.4")
    assert finding.status.lower() == status
    assert text in finding.text


def test_an_engine_without_the_plugin_has_no_such_finding():
    assert list(examine_comet("engine spark", {"spark.jars": JAR}, "4.1.4")) == []


def test_doctor_examines_it():
    spec = EngineSpec("spark", "pyspark", options={"config": {"spark.plugins": PLUGIN}})
    assert any("neither `packages` nor `jars`" in finding.text for finding in PySparkEngine(spec).examine())
