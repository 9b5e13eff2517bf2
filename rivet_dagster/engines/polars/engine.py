"""The engine ``polars``: its options, and the installed version of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar

from packaging.version import InvalidVersion, Version

from rivet_dagster.engines.arrow.engine import ArrowEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model import convert
from rivet_dagster.model.finding import Finding, broken, in_order

if TYPE_CHECKING:
    from rivet_dagster.engines.polars.session import PolarsSession

POLARS = "polars"
"""The name of Polars' SQL, as joints write it in ``dialect``."""

OLDEST, BEYOND = Version("2.1"), Version("3")
"""The versions that the tests run on: from the first one on, and below the other."""

_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "dialect": convert.Choice("spark", POLARS),
    "max_fusion_depth": convert.whole(1),
}

_EXTRA = "pip install 'rivet_dagster[polars]'"


class PolarsEngine(ArrowEngine):
    """Polars in this process, which runs Python joints, copies, and joints in its own SQL.

    Options: ``dialect``, the SQL of joints that do not name theirs (``spark``, the default, or ``polars``), and
    ``max_fusion_depth``.
    """

    type: ClassVar[str] = POLARS
    options: ClassVar[frozenset[str]] = frozenset(_CONVERTERS)
    dialect: ClassVar[str] = POLARS

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key; the compiler needs them written out.

        >>> PolarsEngine.check({"dialect": "duckdb"})["dialect"]
        "must be one of spark, polars, not 'duckdb'"
        """
        wrong = {}
        converters: dict[str, Callable[[Any], Any]] = {
            "dialect": convert.Choice("spark", POLARS),
            "max_fusion_depth": convert.whole(1),
        }
        for key in converters.keys() & options.keys():
            try:
                converters[key](options[key])
            except ValueError as error:
                wrong[key] = str(error)
        return wrong

    def import_packages(self) -> None:
        """Import polars. Raises RVT-123 if it is not installed, or in a version that is not supported."""
        require_polars()

    def session(self) -> PolarsSession:
        """Begin a session."""
        require_polars()
        from rivet_dagster.engines.polars.session import PolarsSession

        return PolarsSession(self._check_interrupt)

    def examine(self) -> Iterable[Finding]:
        """Return whether the package is installed in a version that fits."""
        subject = f"engine {self.name}"
        try:
            require_polars()
        except RivetError as error:
            yield from broken(subject, error)
            return
        yield in_order(subject, f"polars {version(POLARS)}, in this process's memory")


def require_polars() -> None:
    """Import polars. Raises RVT-123 if it is not installed, or in a version that is not supported."""
    try:
        installed = version(POLARS)
    except PackageNotFoundError:
        raise RivetError("RVT-123", "the package polars is not installed", remediation=_EXTRA) from None
    if not is_supported(installed):
        message = f"polars {installed} is installed: the engine runs on {OLDEST} or newer, below {BEYOND}"
        raise RivetError("RVT-123", message, remediation=_EXTRA)
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise RivetError("RVT-123", f"polars cannot be imported: {error}", remediation=_EXTRA) from error


def is_supported(installed: str) -> bool:
    """Return whether the engine runs on that version of polars.

    >>> is_supported("2.1.0"), is_supported("1.30.0"), is_supported("3.0.0"), is_supported("main")
    (True, False, False, False)
    """
    try:
        return OLDEST <= Version(installed) < BEYOND
    except InvalidVersion:
        return False
