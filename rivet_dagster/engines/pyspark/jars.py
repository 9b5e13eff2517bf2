"""The packages and jars of a session: what can be known of them before, and after, Spark fetches them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, listed
from rivet_dagster.errors import RivetError

_FETCHED = (
    "Spark's output above names the package (unresolved dependency); correct the engine's `packages`, or name its file "
    "in `jars`, which is not fetched."
)


def refuse_missing_jars(config: Mapping[str, str]) -> None:
    """Raise RVT-108 if a jar is a file of this machine that does not exist."""
    missing = [jar for jar in listed(config, JARS) if _is_missing(jar)]
    if missing:
        message = f"the jar {', '.join(missing)} does not exist"
        remedy = "Correct the engine's `jars`; a relative path starts at the project's folder."
        raise RivetError("RVT-108", message, remediation=remedy)


def not_present(config: Mapping[str, str], running: Mapping[str, str]) -> list[str]:
    """Return the packages and jars of ``config`` that a session with the settings ``running`` was started without.

    >>> not_present({"spark.jars.packages": "org:lake:2,org:sea:1"}, {"spark.jars": "/jars/lake-2.jar"})
    ['org:sea:1']
    """
    files = {jar.rpartition("/")[2] for jar in listed(running, JARS)}
    files |= {_file_of(package) for package in listed(running, PACKAGES)}
    packages = [package for package in listed(config, PACKAGES) if _file_of(package) not in files]
    return packages + [jar for jar in listed(config, JARS) if jar.rpartition("/")[2] not in files]


def unfetched(config: Mapping[str, str], message: str) -> RivetError | None:
    """Return RVT-502 for a Spark that ended with ``message`` where it may be that a package could not be fetched."""
    packages = listed(config, PACKAGES)
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
