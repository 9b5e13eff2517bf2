"""The finding about the archive of classes that Spark would start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rivet_dagster.engines.pyspark.class_archive.making import may_make_itself
from rivet_dagster.engines.pyspark.class_archive.starting import jvm_of
from rivet_dagster.engines.pyspark.class_archive.store import Archive, find_archive, log_of
from rivet_dagster.engines.pyspark.java import Java
from rivet_dagster.model.finding import Finding, doubtful, in_order

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
