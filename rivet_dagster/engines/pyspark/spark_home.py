"""The Spark distribution that a session, or a server, starts from, and the version of the installed one.

Processes that run a module of this package.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from rivet_dagster.errors import RivetError

_CORE = re.compile(r"spark-core_\d+\.\d+-(?P<version>\d+\.\d+\.\d+.*)\.jar")


def distribution(home: Path | None) -> Path:
    """Return ``home``, or without one the distribution inside the installed pyspark, which is not imported."""
    if home is not None:
        return home
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RivetError("RVT-123", "pyspark is not installed")
    return Path(spec.origin).parent


def refuse_unfit_home(home: Path) -> None:
    """Raise RVT-108 if ``home`` is no Spark, RVT-128 if it is another version than pyspark: both must be one."""
    if not (home / "bin" / "spark-submit").is_file():
        remedy = "Correct the engine's `spark_home`: the folder of a Spark, which has `bin/spark-submit`."
        raise RivetError("RVT-108", f"there is no Spark in {home}", remediation=remedy)
    version, client = distribution_version(home), spark_version()
    if version is not None and client is not None and minor(version) != minor(client):
        message = f"`spark_home` is Spark {version}, and pyspark is {client}"
        raise RivetError("RVT-128", message, remediation=_of_version(version))


def refuse_unfit_server(home: Path) -> None:
    """Raise what ``refuse_unfit_home`` does, and RVT-108 if ``home`` has no Spark Connect server."""
    refuse_unfit_home(home)
    if not any((home / "jars").glob("spark-connect_*.jar")):
        remedy = "Use a distribution of Spark 4, or the one that `pip install pyspark` brings."
        raise RivetError("RVT-108", f"the Spark in {home} has no Spark Connect server", remediation=remedy)


def refuse_unfit_client(server: str) -> None:
    """Raise RVT-128 if the installed pyspark cannot be a client of a server of this version.

    A server serves older clients of the same major version.

    >>> refuse_unfit_client("3.5.2")
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-128 the server is Spark 3.5.2, and pyspark is ...
    """
    client = spark_version()
    if client is None or not (numbers := minor(server)):
        return
    if numbers[0] != minor(client)[0] or numbers < minor(client):
        raise RivetError(
            "RVT-128", f"the server is Spark {server}, and pyspark is {client}", remediation=_of_version(server)
        )


def distribution_version(home: Path) -> str | None:
    """Return the version of a distribution by its jars, None if these are named otherwise."""
    for jar in (home / "jars").glob("spark-core_*.jar"):
        if match := _CORE.fullmatch(jar.name):
            return match["version"]
    return None


def _of_version(spark: str) -> str:
    """Return what to do for a pyspark that fits a Spark of another version.

    >>> _of_version("4.0.5")
    "pip install 'pyspark==4.0.*', or use a Spark of the version that pyspark has."
    """
    numbers = minor(spark)
    if numbers[:1] != (MAJOR,):
        return f"Use a Spark {MAJOR}: rivet_dagster runs on no other."
    return f"pip install 'pyspark=={numbers[0]}.{numbers[1]}.*', or use a Spark of the version that pyspark has."


def minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version.

    >>> minor("4.1.4"), minor("4.1.0-preview1") < minor("4.10.0")
    ((4, 1), True)
    """
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


MAJOR = 4
"""The major version of every Spark that this package runs on."""


def spark_version() -> str | None:
    """Return the version of pyspark without importing it, None for a vendor's build under a name of its own."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def refuse_unfit_spark() -> None:
    """Raise RVT-123 if the installed pyspark is of another major version than this package runs on."""
    installed = spark_version()
    if installed is not None and installed.split(".")[0] != str(MAJOR):
        message = f"pyspark is {installed}, and rivet_dagster runs on Spark {MAJOR}"
        remedy = f"pip install 'pyspark>={MAJOR}.0,<{MAJOR + 1}'"
        raise RivetError("RVT-123", message, remediation=remedy)


_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from {} import main; main()"
_PACKAGES = str(Path(__file__).parents[3])
"""Where this package was imported from."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that calls ``main`` of a module in a new process; ``arguments`` are ``sys.argv[2:]`` there."""
    # Not with -m, which would put the current folder on the path: its modules could hide others.
    return [sys.executable, "-P", "-c", _RUN.format(module), _PACKAGES, *arguments]
