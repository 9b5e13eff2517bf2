"""Comet, a plugin of Spark for native execution: whether the settings of a session fit it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, list_setting
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

PLUGIN = "org.apache.spark.CometPlugin"
_JAR = re.compile(r"comet-spark-spark(?P<spark>\d+\.\d+)_(?P<scala>\d+\.\d+)[:-](?P<version>[\w.]+?)(?:\.jar)?\Z")
_CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_OFF_HEAP = "Set `spark.memory.offHeap.enabled: true` and `spark.memory.offHeap.size`, such as 2g, in the `config`."
_PAGE = "docs/comet.md has a profile, and the versions."


def examine_comet(subject: str, config: Mapping[str, str], spark: str | None) -> Iterator[Finding]:
    """Yield findings about the plugin's jar, its version and its memory; none where the settings name no Comet.

    >>> config = {"spark.plugins": PLUGIN, "spark.jars": "/jars/comet-spark-spark4.0_2.13-1.2.0.jar"}
    >>> [finding.text for finding in examine_comet("engine spark", config, "4.1.4")][0]
    'comet-spark-spark4.0_2.13-1.2.0.jar is Comet for Spark 4.0, and Spark 4.1.4 is installed'
    """
    if PLUGIN not in list_setting(config, "spark.plugins"):
        return
    paths = [path for key in _CLASS_PATHS for path in config.get(key, "").split(":")]
    named = (*list_setting(config, PACKAGES), *list_setting(config, JARS), *paths)
    found = next((match for artifact in named if (match := _JAR.search(artifact))), None)
    if found is None:
        message = "`spark.plugins` names Comet, and neither `packages` nor `jars` has its jar"
        yield from broken(subject, RivetError("RVT-502", message, remediation=_PAGE))
        return
    if spark is not None and found["spark"] != ".".join(spark.split(".")[:2]):
        message = f"{found[0].replace(':', '-')} is Comet for Spark {found['spark']}, and Spark {spark} is installed"
        yield from broken(subject, RivetError("RVT-502", message, remediation=_PAGE))
        return
    memory = config.get("spark.memory.offHeap.size", "0")
    if config.get("spark.memory.offHeap.enabled", "").lower() != "true" or memory.strip("0bkmgtBKMGT") == "":
        yield doubtful(subject, "Comet is off: the settings give it no memory outside of the heap", _OFF_HEAP)
    else:
        yield in_order(
            subject, f"Comet {found['version']} for Spark {found['spark']}, with {memory} outside of the heap"
        )
