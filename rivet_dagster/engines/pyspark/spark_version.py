"""The version of the installed Spark."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from rivet_dagster.errors import RivetError

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
