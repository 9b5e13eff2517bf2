"""Versions that a run stages, so that its last step publishes all of its tables or none of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeGuard

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.model.convert import show
from rivet_dagster.model.storage import Provenance, Published
from rivet_dagster.model.target import BY_GROUP, BY_RUN, PUBLISH


def wrong_publish(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the option ``publish``: the end of a sentence by key.

    >>> wrong_publish({"publish": "run"}), wrong_publish({"publish": "runs"})
    ({}, {'publish': "must be group or run, not 'runs'"})
    """
    publish = options.get(PUBLISH, BY_GROUP)
    if publish in (BY_GROUP, BY_RUN) or is_unexpanded(publish):
        return {}
    return {PUBLISH: f"must be group or run, not {show(publish)}"}


class StagedTransaction(TableTransaction):
    """A transaction whose version may also be staged: complete, readable by name, and not published."""

    def stage(self, identity: str, made: Provenance | None = None) -> Published:
        """Stage the version under ``identity`` for the last step of the run, and return it as it will be published.

        It stays for DEAD_AFTER seconds, and longer if ``StagesForRuns.keep_alive`` is called. Raises RVT-404, RVT-406.
        """
        staged = self._stage(identity, made)
        self._ended = True
        return staged

    @abstractmethod
    def _stage(self, identity: str, made: Provenance | None) -> Published:
        """Do what ``stage`` promises."""

    @abstractmethod
    def check_base(self) -> None:
        """Raise RVT-405 if a version has been published since this one was begun."""


class StagesForRuns(HasTargets):
    """stages versions that the last step of a run publishes.

    A staged version is read like a published one. Once its heartbeat is older than DEAD_AFTER seconds, its run has
    ended or died, and a sweep removes it.
    """

    @classmethod
    def in_one_commit(cls, options: Mapping[str, Any]) -> bool:
        """Return whether a catalog with these options publishes the tables of a run in one commit."""
        return False

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> StagedTransaction:
        """Begin a new version of ``table``, which can also be staged."""

    @abstractmethod
    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that was staged under ``identity`` and is not published; None if there is none."""

    @abstractmethod
    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Renew the heartbeat of a staged version, to last for ``seconds`` longer than a heartbeat does.

        A heartbeat that lasts longer already is not shortened. Return whether there is such a version. Raises OSError.
        """

    def keep_all_alive(self, versions: Set[str], seconds: float = 0.0) -> Set[str] | None:
        """Renew the heartbeats of several staged versions at once, as ``keep_alive`` does; return those that exist.

        None, as by default, where each takes a request of its own.
        """
        return None

    def list_once(self) -> AbstractContextManager[None]:
        """List once, for all versions that are taken up and published in the block, what each of them would list.

        By default there is nothing to list.
        """
        return nullcontext()

    @abstractmethod
    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> StagedTransaction:
        """Reopen a staged version, to be published after the version that it was begun with.

        ``options`` are those of its storage. It stays staged until then. Raises RVT-418 if there is none.
        """

    @abstractmethod
    def withhold_staged(self, table: str, version: str) -> None:
        """Withhold a staged version for a person to publish or remove: no sweep removes it. Raises RVT-404, RVT-418."""


class PublishesTogether(HasTargets):
    """publishes the versions that a run has staged in one commit, if it ``publishes_together``."""

    @property
    def publishes_together(self) -> bool:
        """Whether it does, with its options: ``in_one_commit`` is true of them."""
        return True

    @abstractmethod
    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish versions that ``take_up_staged`` has returned, each under its identity: all in one commit, or none.

        One that is published already stays as it is. Raises RVT-405, which names each table of which another version
        has been published since its own was begun; RVT-404, RVT-406 and RVT-407 as ``commit`` does.
        """


def publishes_together(catalog: HasTargets) -> TypeGuard[PublishesTogether]:
    """Return whether the catalog publishes the tables of a run in one commit."""
    return isinstance(catalog, PublishesTogether) and catalog.publishes_together
