"""This Python, and the versions of the packages that rivet_dagster works with."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from rivet_dagster import __version__
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_DISTRIBUTION = "rivet-dagster"
_EXTRAS = ("ui", "java", "fast", "connect", "pandas")
"""Those for users: what developers have may be of any version."""
_SHOWN = ("dagster", "dagster-webserver", "dagster-pyspark", "pyspark", "pyarrow", "pandas", "polars", "sqlglot")


def python() -> Finding:
    """The Python that runs this; too old a one would not have come so far."""
    return in_order("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def packages() -> Iterator[Finding]:
    """What is installed, and what of it is not a version that rivet_dagster declares, those of its extras too."""
    try:
        declared = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        text = "rivet_dagster runs from its source tree: nothing tells which versions it takes"
        yield doubtful("packages", text, "Install it: pip install -e .")
        declared = []
    wrong = [error for text in declared if (error := _misfit(Requirement(text))) is not None]
    for error in wrong:
        yield from broken("packages", error)
    found = ((name, installed(name)) for name in _SHOWN)
    shown = ", ".join(f"{name} {number}" for name, number in found if number is not None)
    yield in_order("packages", f"rivet_dagster {__version__}, {shown}")


def installed(distribution: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _misfit(requirement: Requirement) -> RivetError | None:
    """What is wrong with the installed version; a package of an extra may be absent."""
    marker = requirement.marker
    wanted_by = [extra for extra in ("", *_EXTRAS) if marker is None or marker.evaluate({"extra": extra})]
    found = installed(requirement.name)
    if found is None and "" in wanted_by:
        return RivetError("RVT-123", f"{requirement.name} is not installed")
    if found is None or not wanted_by or requirement.specifier.contains(found, prereleases=True):
        return None
    return RivetError("RVT-123", f"{requirement.name} is {found}, it must be {requirement.specifier}")
