"""The packages and jars of a session: what can be known of them before, and after, Spark fetches them.

Iceberg's runtimes for Spark: one jar for each minor version of Spark, which no other version can load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, list_setting
from rivet_dagster.errors import RivetError

_FETCHED = (
    "Spark's output above names the package (unresolved dependency); correct the engine's `packages`, or name its file "
    "in `jars`, which is not fetched."
)


def refuse_missing_jars(config: Mapping[str, str]) -> None:
    """Raise RVT-108 if a jar is a file of this machine that does not exist."""
    missing = [jar for jar in list_setting(config, JARS) if _is_missing(jar)]
    if missing:
        message = f"the jar {', '.join(missing)} does not exist"
        remedy = "Correct the engine's `jars`; a relative path starts at the project's folder."
        raise RivetError("RVT-108", message, remediation=remedy)


def not_present(config: Mapping[str, str], running: Mapping[str, str]) -> list[str]:
    """Return the packages and jars of ``config`` that a session with the settings ``running`` was started without.

    >>> not_present({"spark.jars.packages": "org:lake:2,org:sea:1"}, {"spark.jars": "/jars/lake-2.jar"})
    ['org:sea:1']
    """
    files = {jar.rpartition("/")[2] for jar in list_setting(running, JARS)}
    files |= {_file_of(package) for package in list_setting(running, PACKAGES)}
    packages = [package for package in list_setting(config, PACKAGES) if _file_of(package) not in files]
    return packages + [jar for jar in list_setting(config, JARS) if jar.rpartition("/")[2] not in files]


def unfetched_package(config: Mapping[str, str], message: str) -> RivetError | None:
    """Return RVT-502 for a Spark that ended with ``message`` where it may be that a package could not be fetched."""
    packages = list_setting(config, PACKAGES)
    if not packages or not any(text in message for text in ("JAVA_GATEWAY_EXITED", "unresolved dependency")):
        return None
    text = f"Spark did not start, and it was to fetch {', '.join(packages)}: {message}"
    return RivetError("RVT-502", text, remediation=_FETCHED)


def _file_of(package: str) -> str:
    """Return the name of the file that Maven coordinates stand for.

    >>> _file_of("org.postgresql:postgresql:42.7.14")
    'postgresql-42.7.14.jar'
    """
    return "-".join(package.split(":")[1:3]) + ".jar"


def local_jar(jar: str) -> str | None:
    """Return the path, or glob, of a jar of this machine; None for one that Spark fetches.

    >>> local_jar("file:///jars/lake.jar"), local_jar("https://repo/lake.jar")
    ('/jars/lake.jar', None)
    """
    path = jar.removeprefix("file://").removeprefix("file:")
    return path if path.startswith("/") else None


def _is_missing(jar: str) -> bool:
    path = local_jar(jar)
    if path is None or any(character in path for character in "*?[{"):  # Spark expands globs
        return False
    return not Path(path).is_file()


GROUP = "org.apache.iceberg"
SCALA = "2.13"
"""The Scala of every Spark 4."""

_NEWEST = {"4.0": "1.11.0", "4.1": "1.12.0"}
"""By Spark's minor version, the newest Iceberg that has a runtime for it."""

_RUNTIME = re.compile(r"iceberg-spark-runtime-(?P<spark>\d+\.\d+)_(?P<scala>\d+\.\d+)")


def iceberg_version(spark: str | None) -> str:
    """Return the Iceberg that fits a version of Spark; the newest where no runtime fits it, or it is not known.

    >>> iceberg_version("4.0.1"), iceberg_version("4.1.4")
    ('1.11.0', '1.12.0')
    """
    return _NEWEST.get(_minor(spark), _NEWEST[max(_NEWEST)])


def has_runtime(spark: str | None) -> bool:
    """Return whether a runtime fits a version of Spark, or may fit one that is not known.

    >>> has_runtime("4.1.4"), has_runtime("4.3.0"), has_runtime(None)
    (True, False, True)
    """
    return spark is None or _minor(spark) in _NEWEST


def runtime_package(spark: str | None) -> str:
    """Return the coordinates of the runtime that fits a version of Spark; see ``iceberg_version``.

    >>> runtime_package("4.1.4")
    'org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0'
    """
    minor = _minor(spark)
    fitting = minor if minor in _NEWEST else max(_NEWEST)
    return f"{GROUP}:iceberg-spark-runtime-{fitting}_{SCALA}:{_NEWEST[fitting]}"


def is_runtime(artifact: str) -> bool:
    """Return whether a package or jar is a runtime of Iceberg, by its name.

    >>> is_runtime("/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar"), is_runtime("org.postgresql:postgresql:42")
    (True, False)
    """
    return _RUNTIME.search(artifact) is not None


def refuse_unfit_runtime(config: Mapping[str, str], spark: str | None) -> None:
    """Raise RVT-127 if a package or jar of these settings is a runtime for another Spark or Scala, by its name.

    >>> refuse_unfit_runtime({"spark.jars": "/jars/iceberg-spark-runtime-4.0_2.13-1.11.0.jar"}, "4.1.4")
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-127 iceberg-spark-runtime-4.0_2.13-1.11.0.jar is for Spark 4.0 and Scala 2.13,
    and Spark 4.1.4 is installed, with Scala 2.13
        Use org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 in the engine's `packages`, or its file in `jars`.
    """
    if spark is None:
        return
    for artifact in (*list_setting(config, PACKAGES), *list_setting(config, JARS)):
        match = _RUNTIME.search(artifact)
        if match is not None and (match["spark"], match["scala"]) != (_minor(spark), SCALA):
            raise _unfit(artifact.rpartition("/")[2], match, spark)


def _unfit(artifact: str, match: re.Match[str], spark: str) -> RivetError:
    message = f"{artifact} is for Spark {match['spark']} and Scala {match['scala']}"
    message += f", and Spark {spark} is installed, with Scala {SCALA}"
    if has_runtime(spark):
        remedy = f"Use {runtime_package(spark)} in the engine's `packages`, or its file in `jars`."
    else:
        message = f"Iceberg has runtimes for Spark {' and '.join(_NEWEST)} alone: {message}"
        remedy = f"Install a Spark that has one: pip install 'rivet_dagster[iceberg]' or 'pyspark=={max(_NEWEST)}.*'."
    return RivetError("RVT-127", message, remediation=remedy)


def _minor(spark: str | None) -> str:
    return ".".join((spark or "").split(".")[:2])
