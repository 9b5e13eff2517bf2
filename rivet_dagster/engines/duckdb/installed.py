"""The installed version of the package duckdb."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.version import InvalidVersion, Version

from rivet_dagster.errors import RivetError

OLDEST, BEYOND = Version("2.0"), Version("3")
"""The versions whose rows the tests compare with Spark's: from the first one on, and below the other."""
_EXTRA = "pip install 'rivet_dagster[duckdb]'"


def duckdb_version() -> str | None:
    """Return the version of the installed package, None without one."""
    try:
        return version("duckdb")
    except PackageNotFoundError:
        return None


def require_duckdb() -> None:
    """Import duckdb. Raises RVT-123 if it is not installed, or in a version that is not supported."""
    installed = duckdb_version()
    if installed is None:
        raise RivetError("RVT-123", "the package duckdb is not installed", remediation=_EXTRA)
    if not is_supported(installed):
        message = f"duckdb {installed} is installed: the engine runs on {OLDEST} or newer, below {BEYOND}"
        raise RivetError("RVT-123", message, remediation=_EXTRA)
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise RivetError("RVT-123", f"duckdb cannot be imported: {error}", remediation=_EXTRA) from error


def is_supported(installed: str) -> bool:
    """Return whether the engine runs on that version of duckdb.

    >>> is_supported("2.0.0"), is_supported("1.4.2"), is_supported("3.0.0"), is_supported("main")
    (True, False, False, False)
    """
    try:
        return OLDEST <= Version(installed) < BEYOND
    except InvalidVersion:
        return False
