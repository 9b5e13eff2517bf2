"""The Python interpreter and the versions of the packages that rivet_dagster works with."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.version import __version__

_DISTRIBUTION = "rivet-dagster"
_EXTRAS = ("ui", "java", "fast", "connect", "iceberg", "pandas")
"""The extras for users; the packages of the development extras may have any version."""
_SHOWN = ("dagster", "dagster-webserver", "dagster-pyspark", "pyspark", "pyarrow", "pandas", "polars", "sqlglot")


def python() -> Finding:
    """Report the Python that runs this command; too old a one could not have imported the package."""
    return in_order("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def packages() -> Iterator[Finding]:
    """Report the installed packages, and each whose version does not fit rivet_dagster's requirements and extras."""
    try:
        declared = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        text = "rivet_dagster runs from its source tree: the versions that it requires are not known"
        yield doubtful("packages", text, "Install it: pip install -e .")
        declared = []
    wrong = [error for requirement in _to_judge(declared) if (error := _misfit(requirement)) is not None]
    for error in wrong:
        yield from broken("packages", error)
    versions = ((name, installed(name)) for name in _SHOWN)
    shown = ", ".join(f"{name} {number}" for name, number in versions if number is not None)
    yield in_order("packages", f"rivet_dagster {__version__}, {shown}")


def _to_judge(declared: Sequence[str]) -> Iterator[Requirement]:
    """Yield the requirements; of a package that is always required, not the narrower ones of extras.

    Who has the package may not have asked for the extra; what needs such a version says so itself.
    """
    requirements = [Requirement(text) for text in declared]
    always = {requirement.name for requirement in requirements if "extra" not in str(requirement.marker)}
    for requirement in requirements:
        if requirement.name not in always or "extra" not in str(requirement.marker):
            yield requirement


def installed(distribution: str) -> str | None:
    """Return the version of a distribution, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _misfit(requirement: Requirement) -> RivetError | None:
    """Return the error in the installed version, None without one; a package of an extra may be absent."""
    marker = requirement.marker
    extras = [extra for extra in ("", *_EXTRAS) if marker is None or marker.evaluate({"extra": extra})]
    number = installed(requirement.name)
    if number is None and "" in extras:
        return RivetError("RVT-123", f"{requirement.name} is not installed")
    if number is None or not extras or requirement.specifier.contains(number, prereleases=True):
        return None
    return RivetError("RVT-123", f"{requirement.name} is {number}, it must be {requirement.specifier}")
