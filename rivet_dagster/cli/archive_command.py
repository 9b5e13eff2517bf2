"""``rivet-dagster spark archive``: archives of classes made beforehand, as for container images."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rivet_dagster.cli.spark_command import spark_engines
from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.making import make_archive
from rivet_dagster.engines.pyspark.class_archive.store import Archive, find_archive
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.project import MANIFEST
from rivet_dagster.project.load import load_project

_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.5


def make_archives(root: Path, profile: str | None, to: Path | None) -> int:
    """Make the archive of each engine that starts Spark; print where each is. Return 0.

    ``to`` is the folder that they are made in, in place of the one that the engine uses. Raises RVT-110 if no engine
    starts Spark, and RVT-526.
    """
    for engine, jvm in _engines(root, profile):
        folder = to.absolute() if to is not None else engine.class_archives
        if folder is None:
            remedy = "Name a folder with --to, or turn archives on: `class_archive` of the engine, RIVET_CLASS_ARCHIVE."
            raise RivetError("RVT-526", f"engine {engine.name}: archives of classes are turned off", remediation=remedy)
        try:
            archive = _made(folder, jvm)
        except OSError as error:
            message = f"the archive cannot be written in {folder}: {error.strerror or error}"
            raise RivetError("RVT-526", message, remediation="Name another folder with --to.") from error
        print(f"engine {engine.name}: {folder / jvm.key}, {archive.size / 1e6:.0f} MB, for Java {jvm.java.major}")
    return 0


def _made(folder: Path, jvm: SparkJvm) -> Archive:
    """Return the archive; another process that makes one in this folder is waited for."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (archive := make_archive(folder, jvm)) is None:
        if time.monotonic() > deadline:
            raise RivetError("RVT-526", f"another process has been making an archive in {folder} for too long")
        time.sleep(_POLL_SECONDS)
    found = find_archive(folder, jvm)
    if not isinstance(found, Archive):
        raise RivetError("RVT-526", f"the archive was made, but will not be used: {found.reason}")
    return archive


def _engines(root: Path, profile: str | None) -> Sequence[tuple[PySparkEngine, SparkJvm]]:
    """Return the engines of a project that start Spark; without a project, one with no packages and jars."""
    if not (root / MANIFEST).is_file():
        engines = [PySparkEngine(EngineSpec("spark", "pyspark"))]
    else:
        engines = spark_engines(load_project(root, profile).profile, root)
    starting = [(engine, jvm) for engine in engines if (jvm := engine.jvm()) is not None]
    if not starting:
        remedy = "An engine with the address of a server as `remote` starts none: make the archive where that starts."
        raise RivetError("RVT-110", "no engine of the profile starts Spark", remediation=remedy)
    return starting
