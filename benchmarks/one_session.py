"""The one Spark session of a benchmark: all contenders run on it, and the product's engine does too."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rivet_dagster import Joint, compile_directory
from rivet_dagster.execution.runtime import Runtime

ENGINE = "spark"

FOLDERS = {name: name for name in ("sources", "joints", "sinks")}
PROFILES: dict[str, dict[str, Any]] = {
    "default": {
        "catalogs": {
            "raw": {"type": "filesystem", "path": "data"},
            "results": {"type": "filesystem", "path": "results"},
        },
        "engines": [
            {
                "name": ENGINE,
                "type": "pyspark",
                "catalogs": ["raw", "results"],
                "master": "local[2]",  # not [*]: figures of two machines should differ by the machines alone
                "config": {
                    "spark.driver.memory": "2g",
                    "spark.sql.session.timeZone": "UTC",
                    "spark.ui.enabled": False,
                },
            }
        ],
    }
}


def open_runtime(
    folder: Path, joints: Sequence[Joint], catalogs: Mapping[str, Mapping[str, Any]] | None = None
) -> Runtime:
    """The compiled project of these joints, whose engine connects to the process's one Spark session.

    ``catalogs`` are further ones of its profile, by name.
    """
    for name in FOLDERS:
        (folder / name).mkdir()
    (folder / "rivet.yaml").write_text(yaml.safe_dump({"profiles": "profiles.yaml", **FOLDERS}))
    profile = copy.deepcopy(PROFILES["default"])
    profile["catalogs"] |= catalogs or {}
    profile["engines"][0]["catalogs"] = sorted(profile["catalogs"])
    (folder / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    assembly = compile_directory(folder, joints=joints).raise_errors()
    runtime = Runtime(assembly, folder, {ENGINE: lambda: shared_session(runtime)})
    return runtime


def shared_session(runtime: Runtime) -> Any:
    """The session of the process, begun at the first call with the settings of the project's engine."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    for key, value in runtime.engine(ENGINE).session_config().items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_spark(runtime: Runtime) -> Any:
    """The shared session, started by the product, which looks for a Java that Spark runs on."""
    runtime.engine(ENGINE).session().close()
    return shared_session(runtime)


def cpu_seconds(spark: Any) -> float:
    """What this process and its JVM have used so far, all threads together."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get().toMillis()
    return time.process_time() + float(jvm) / 1000


def load() -> str:
    """The load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"
