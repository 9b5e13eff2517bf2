"""Whether Spark's JVM starts from an archive, what happens where there is none yet, and what `doctor` finds."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from pathlib import Path

from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.making import begin_making, may_make_itself
from rivet_dagster.engines.pyspark.class_archive.options import OPTIONS, use_options
from rivet_dagster.engines.pyspark.class_archive.store import Archive, find_archive, log_of
from rivet_dagster.engines.pyspark.java import Java
from rivet_dagster.engines.pyspark.spark_home import distribution
from rivet_dagster.model.finding import Finding, doubtful, in_order

_OWN = ("SharedArchiveFile", "ArchiveClassesAtExit", "AutoCreateSharedArchive", "-Xshare", "AOTCache", "AOTMode")
"""Options by which users show that they have an archive of their own."""
_EXTRA = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def archive_options(
    folder: Path | None, java: Java | None, config: Mapping[str, str], home: Path | None, environ: Mapping[str, str]
) -> str:
    """Return the options by which Spark's JVM starts from its archive; empty where it has none, or must not.

    ``java`` is None if the JVM runs already. Where ``folder`` has no archive for it, a process that outlives this one
    makes it.
    """
    own = (environ.get(OPTIONS, ""), *(config.get(key, "") for key in _EXTRA))
    if folder is None or java is None or any(option in text for text in own for option in _OWN):
        return ""
    jvm = jvm_of(java, config, home, environ)
    archive = find_archive(folder, jvm)
    if isinstance(archive, Archive):
        return use_options(jvm, archive)
    if may_make_itself(folder, jvm, environ):
        atexit.register(begin_making, folder, jvm)
    if jvm.without_jars != jvm:
        archive = find_archive(folder, jvm.without_jars)
    return use_options(jvm, archive) if isinstance(archive, Archive) else ""


def jvm_of(java: Java, config: Mapping[str, str], home: Path | None, environ: Mapping[str, str]) -> SparkJvm:
    """Return the JVM that starts with ``config``; ``home`` is another Spark distribution than that of pyspark."""
    # pyspark looks for Spark's launcher there, too.
    given = home or (Path(environ["SPARK_HOME"]) if environ.get("SPARK_HOME") else None)
    return SparkJvm.of(java, distribution(given), config, environ)


_MAKE = "`rivet-dagster spark archive` makes it, or says why it cannot."


def examine_archive(
    subject: str,
    folder: Path | None,
    java: Java,
    config: Mapping[str, str],
    home: Path | None,
    environ: Mapping[str, str],
) -> Finding:
    """Return the finding about the archive in ``folder`` for the JVM that starts with ``config``."""
    if folder is None:
        return in_order(subject, "Spark starts without an archive of classes: these are turned off")
    jvm = jvm_of(java, config, home, environ)
    archive = find_archive(folder, jvm)
    if isinstance(archive, Archive):
        return in_order(
            subject, f"Spark starts from an archive of classes, {archive.size / 1e6:.0f} MB: {folder / jvm.key}"
        )
    without = "Spark starts slowly, without an archive of classes"
    if jvm.obstacle is not None:
        return in_order(subject, f"{without}: {jvm.obstacle}")
    if archive.damaged:
        return doubtful(subject, f"{without}: {archive.reason}", _MAKE)
    if may_make_itself(folder, jvm, environ):
        return in_order(subject, f"{without}; the next run makes one in {folder}")
    log = log_of(folder, jvm)
    if log.exists():
        return doubtful(subject, f"{without}: it could not be made, see {log}", _MAKE)
    return in_order(subject, f"{without}; `rivet-dagster spark archive` makes one")
