"""Findings about the jars and packages of a session: whether they are here, and are for this Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from zipfile import is_zipfile

from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, listed
from rivet_dagster.engines.pyspark.iceberg_runtime import is_runtime, refuse_unfit_runtime
from rivet_dagster.engines.pyspark.jars import local_jar, refuse_missing_jars
from rivet_dagster.engines.pyspark.spark_home import spark_version
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_FETCH = (
    "Start Spark once where Maven's repositories can be reached, have `mvn dependency:get -Dartifact={package}` fetch "
    "it, or name its file in `jars`."
)
_AGAIN = "Fetch it again: the download may have ended early."
_LOOK = "Correct the engine's `jars`, or have the file there before Spark starts."


def examine_jars(subject: str, config: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """Yield a finding for each jar and package of these settings; ``home`` is the user's, with Maven's and Ivy's files.

    Nothing is fetched.
    """
    for jar in listed(config, JARS):
        yield from _refused(subject, {JARS: jar}) or (_jar(subject, jar),)
    for package in listed(config, PACKAGES):
        yield from _refused(subject, {PACKAGES: package}) or (_package(subject, package, config, home),)


def _refused(subject: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    try:
        refuse_missing_jars(config)
        refuse_unfit_runtime(config, spark_version())
    except RivetError as error:
        return broken(subject, error)
    return ()


def _jar(subject: str, jar: str) -> Finding:
    path = local_jar(jar)
    if path is None:
        return doubtful(
            subject, f"the jar {jar} is fetched when Spark starts; it is not known whether it can be", _LOOK
        )
    files = [path] if Path(path).is_file() else glob(path)
    if not files:
        return doubtful(subject, f"the jar {jar}: no file has such a name", _LOOK)
    damaged = [file for file in files if not is_zipfile(file)]
    if damaged:
        return doubtful(subject, f"{damaged[0]} is no jar", _AGAIN)
    return in_order(subject, f"the jar {jar} is there{_for_spark(jar)}")


def _package(subject: str, package: str, config: Mapping[str, str], home: Path) -> Finding:
    place = cached(package, config, home)
    if place is None:
        text = f"{package} is not on this machine: it is fetched when Spark starts, if Maven's repositories answer"
        return doubtful(subject, text, _FETCH.format(package=package))
    return in_order(subject, f"{package} is in {place}{_for_spark(package)}")


def cached(package: str, config: Mapping[str, str], home: Path) -> Path | None:
    """Return the folder of Maven or Ivy from which Spark takes a package without a network; None if it must fetch it.

    >>> cached("org.postgresql:postgresql:42", {}, Path("/nowhere")) is None
    True
    """
    group, artifact, version, *_ = [*package.split(":"), "", ""]
    ivy = [Path(config["spark.jars.ivy"])] if "spark.jars.ivy" in config else sorted(home.glob(".ivy2*"))
    jar = f"{artifact}-{version}.jar"
    maven = home / ".m2/repository" / group.replace(".", "/") / artifact / version
    if (maven / jar).is_file() and (maven / f"{artifact}-{version}.pom").is_file():
        return home / ".m2"
    for place in ivy:
        module = place / "cache" / group / artifact
        if (module / f"ivy-{version}.xml").is_file() and any(module.glob(f"*/{jar}")):
            return place
        if (place / "local" / group / artifact / version / "jars" / f"{artifact}.jar").is_file():
            return place
    return None


def _for_spark(artifact: str) -> str:
    version = spark_version()
    return f", for the installed Spark {version}" if version is not None and is_runtime(artifact) else ""
