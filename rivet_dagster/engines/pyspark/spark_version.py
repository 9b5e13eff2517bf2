"""The version of the installed Spark."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def spark_version() -> str | None:
    """Return the version of pyspark without importing it, None for a vendor's build under a name of its own."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None
