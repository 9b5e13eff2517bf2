"""The package of the connector of SQL warehouses."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.version import InvalidVersion, Version

from rivet_dagster.errors import RivetError

PACKAGE = "databricks-sql-connector"
OLDEST, BEYOND = Version("4.2"), Version("5")
"""The versions with the interface that the tests' stand-in has: from the first one on, and below the other."""
_EXTRA = "pip install 'rivet_dagster[databricks]'"


def connector_version() -> str | None:
    """Return the version of the installed package, None without one."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def require_connector() -> Any:
    """Import and return ``databricks.sql``. Raises RVT-123 if it is not installed, or in another version."""
    installed = connector_version()
    if installed is None:
        raise RivetError("RVT-123", f"the package {PACKAGE} is not installed", remediation=_EXTRA)
    if not is_supported(installed):
        message = f"{PACKAGE} {installed} is installed: the engine runs on {OLDEST} or newer, below {BEYOND}"
        raise RivetError("RVT-123", message, remediation=_EXTRA)
    try:
        from databricks import sql
    except ImportError as error:
        raise RivetError("RVT-123", f"{PACKAGE} cannot be imported: {error}", remediation=_EXTRA) from error
    return sql


def is_supported(installed: str) -> bool:
    """Return whether the engine runs on that version of the package.

    >>> is_supported("4.9.0"), is_supported("3.7.1"), is_supported("5.0.0")
    (True, False, False)
    """
    try:
        return OLDEST <= Version(installed) < BEYOND
    except InvalidVersion:
        return False
