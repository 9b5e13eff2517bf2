"""Environments: branches of the data, on which a project runs without anything of it reaching readers of the base."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.model.storage import Published

ABANDONED_AFTER = timedelta(days=30)
"""The time without a run or another use after which an environment counts as abandoned."""


@dataclass(frozen=True)
class Environment:
    """An environment of a catalog that is not over.

    ``profile`` is the one whose runs made it; ``created_at`` and ``used_at`` are times in ISO 8601, the latter that of
    the last run or other use. ``tables`` are those that were built there, in order. ``merging`` says that a merge has
    been interrupted, which the same command finishes.
    """

    name: str
    profile: str
    created_at: str
    used_at: str
    tables: tuple[str, ...] = ()
    merging: bool = False


@dataclass(frozen=True)
class BuiltTable:
    """A table that was built in an environment.

    ``base`` is the version of the base that the environment's rows build upon, and stays readable as long as the
    environment exists, even if it has expired in the base; None if the base had no such table. ``current`` is the
    version that readers in the environment see. Both are read by the catalog that ``in_environment`` returns, also with
    ``errors_of``. ``moved`` says that the base has published since, or has removed the table; ``same``, that storage
    tells without reading a row that ``base`` and ``current`` hold the same rows.
    """

    table: str
    base: Published | None
    current: Published
    moved: bool = False
    same: bool = False


class HasEnvironments(HasTargets):
    """keeps the tables of environments apart from those of the base.

    Environments are known by their names, which match ``^[a-z0-9][a-z0-9_-]*$`` and have at most 64 characters.
    """

    @abstractmethod
    def in_environment(self, name: str) -> HasTargets:
        """Return this catalog as the environment sees it, without accessing storage.

        It has the capabilities of this one, but for environments. What it publishes is published in the environment,
        ``Published.environment`` being its name. A table that was not built there is that of the base: ``relation``,
        ``columns``, ``data_version``, ``tables`` and ``current`` find it, and ``read``, ``errors_of``, ``statistics``,
        ``max_of`` and ``watermark_override`` take versions of both. Nothing that is done there changes the base:
        ``evict`` does nothing to a version of the base, and ``override_watermark`` raises RVT-417 for it. ``begin``
        raises RVT-415 if there is no such environment, or if it is over.
        """

    @abstractmethod
    def use_environment(self, name: str, profile: str) -> None:
        """Make the environment if there is none, and record that it is used now, with that profile.

        It copies no data. Raises RVT-415 if the environment is over or being merged, RVT-416 if it is used with another
        profile.
        """

    @abstractmethod
    def environments(self) -> tuple[Environment, ...]:
        """Return the environments that are not over, in order of their names."""

    @abstractmethod
    def is_merged(self, name: str) -> bool:
        """Return whether the environment is over because it has been merged."""

    @abstractmethod
    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in an environment, in order; none if there is no such environment."""

    @abstractmethod
    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish all tables that were built in the environment to the base, which ends it; return those versions.

        An interrupted merge is finished by calling it again. Raises RVT-405, and publishes nothing, if the base of a
        table has moved; RVT-417 if a run is alive there; RVT-415 if there is no such environment, or if it is over.
        """

    @abstractmethod
    def drop(self, name: str) -> bool:
        """Remove an environment with all its data at once; return whether there was one, be it half removed.

        An interrupted drop is finished by the sweep, or by calling it again. Raises RVT-415 if it has been merged.
        """

    @abstractmethod
    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove the environments that were not used for that time, and what interrupted drops left; return the names.

        Those in which a run is alive stay. Names of merged environments are forgotten after the same time.
        """
