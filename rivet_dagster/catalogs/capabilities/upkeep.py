"""Sweeps, which remove what dead runs have left, and upkeep, which expires versions and rewrites files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, doubtful

MANY_FILES, SMALL_FILE = 1_000, 8 * 2**20
"""From how many files on, and below how many bytes each, a table's files are doubtful: a query opens each of them."""

REMEMBERED = timedelta(days=30)
"""For how long it is remembered who published a version that has expired: nobody retries a run after so long."""


def small_files(subject: str, files: int, size: int, remedy: str) -> Iterator[Finding]:
    """Yield the finding of a table whose rows, of ``size`` bytes, are in many small files.

    >>> [found.text for found in small_files("table orders", 2000, 2000 * 2**20, "Join them.")]
    ['its rows are in 2,000 files of 1.0 MiB on average, and a query opens each']
    >>> list(small_files("table orders", 2000, 2000 * 2**30, "Join them."))
    []
    """
    if files >= MANY_FILES and size < files * SMALL_FILE:
        text = f"its rows are in {files:,} files of {size / files / 2**20:.1f} MiB on average, and a query opens each"
        yield doubtful(subject, text, remedy)


class Sweeps(Catalog):
    """removes what dead runs left."""

    @abstractmethod
    def building(self) -> tuple[str, ...]:
        """Return the names of the versions that are being built, by runs that are alive or have only just died."""

    @abstractmethod
    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the versions that dead runs were building and return their names; live runs are not affected.

        A table that cannot be swept does not stop the others: ``failed`` is called with each error, or, without it,
        all errors are raised together at the end.
        """


@dataclass(frozen=True)
class UpkeepReport:
    """A report of what was done to a table.

    ``bytes_before`` and ``bytes_after`` are the size of its current rows. ``files_deleted`` are those that only expired
    versions had. ``skipped`` are the steps that were wanted and not done, with the reason. ``leftovers`` are what dead
    runs had left.
    """

    table: str
    snapshots_expired: int = 0
    files_deleted: int = 0
    orphans_deleted: int = 0
    files_rewritten: int = 0
    files_added: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    manifests_rewritten: int = 0
    manifests_added: int = 0
    leftovers: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def text(self) -> str:
        """Return it as one line.

        >>> UpkeepReport("orders", 2, 7, files_rewritten=6, files_added=1, skipped={"rewrite_manifests": "busy"}).text()
        '2 snapshots expired (7 files), 6 files rewritten as 1; rewrite_manifests skipped: busy'
        """
        done = [
            f"{len(self.leftovers)} leftovers of dead runs removed" if self.leftovers else "",
            f"{self.snapshots_expired} snapshots expired ({self.files_deleted} files)"
            if self.snapshots_expired
            else "",
            f"{self.orphans_deleted} orphan files removed" if self.orphans_deleted else "",
            f"{self.files_rewritten} files rewritten as {self.files_added}" if self.files_rewritten else "",
            f"{self.manifests_rewritten} manifests as {self.manifests_added}" if self.manifests_rewritten else "",
        ]
        skipped = [f"{step} skipped: {why}" for step, why in self.skipped.items()]
        return "; ".join([", ".join(filter(None, done)) or "nothing to do", *skipped])


class HasUpkeep(HasTargets):
    """keeps the files of its tables in order."""

    @classmethod
    def wants_upkeep(cls, options: Mapping[str, Any]) -> bool:
        """Return whether a catalog that is declared with ``options`` wants any upkeep."""
        return True

    @abstractmethod
    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Do what the catalog's options say to a table, or an error table, and return what was done.

        Return None if the table has not been published. The table's versions keep their names, rows and facts, and what
        runs are building is not affected. Raises RVT-403, RVT-404, RVT-414.
        """
