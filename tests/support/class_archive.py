"""The archive of classes from which each JVM of Spark starts that these tests start, whatever process starts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.making import make_archive
from rivet_dagster.engines.pyspark.class_archive.options import use_options
from rivet_dagster.engines.pyspark.class_archive.store import VARIABLE, Archive, find_archive
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from support.spark import QUICK

MANY = 100
"""For so many tests it pays to make the archive first, which takes as long as some starts of Spark."""


def use_archive(folder: Path, tests: int) -> None:
    """Have all JVMs start from the archive in ``folder``, never from one of this user; make it for many ``tests``."""
    jvm = _jvm()
    os.environ[VARIABLE] = "false"
    if jvm is None:
        return
    if tests >= MANY:
        while not isinstance(find_archive(folder, jvm), Archive) and make_archive(folder, jvm) is None:
            time.sleep(0.5)  # another process of these tests makes it
    if isinstance(find_archive(folder, jvm), Archive):
        os.environ[VARIABLE] = str(folder)


def java_options() -> str:
    """Return the options of JVMs of Spark that are no drivers, which start from the archive, too, if there is one."""
    folder, jvm = Path(os.environ.get(VARIABLE, "false")), _jvm()
    found = find_archive(folder, jvm) if jvm is not None else None
    return f"{QUICK} {use_options(jvm, found)}" if isinstance(found, Archive) and jvm is not None else QUICK


def _jvm() -> SparkJvm | None:
    """Return the JVM of Spark on this machine, None where there is no Java for it; tests say so themselves."""
    try:
        return PySparkEngine(EngineSpec("spark", "pyspark")).jvm()
    except RivetError:
        return None
