"""The installed Sail: its version, without an import of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from rivet_dagster.errors import RivetError

VERSIONS = "0.7.2", "0.8"
"""The first version of Sail that sessions were tried on, and the first that they were not tried on."""

_INSTALL = "pip install 'rivet_dagster[sail]'"


def sail_version() -> str | None:
    """Return the version of pysail, None where it is not installed."""
    try:
        return version("pysail")
    except PackageNotFoundError:
        return None


def refuse_unfit_sail() -> None:
    """Raise RVT-123 where Sail is not installed, or is of a version on which sessions were not tried."""
    installed = sail_version()
    if installed is None:
        raise RivetError("RVT-123", "pysail is not installed, which `remote: sail` starts", remediation=_INSTALL)
    if not is_known(installed):
        first, end = VERSIONS
        message = f"pysail is {installed}, and rivet_dagster runs on {first} or newer, before {end}"
        raise RivetError("RVT-123", message, remediation=_INSTALL)


def is_known(installed: str) -> bool:
    """Return whether a version of Sail is one that sessions were tried on.

    >>> is_known("0.7.2"), is_known("0.7.10"), is_known("0.7.1"), is_known("0.8.0")
    (True, True, False, False)
    """
    from packaging.version import Version

    first, end = map(Version, VERSIONS)
    return first <= Version(installed) < end
