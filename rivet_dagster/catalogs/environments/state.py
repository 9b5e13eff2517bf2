"""The states of an environment, the storage that holds them, and the merge that goes through them.

An environment is ``open`` until a merge begins: then it is ``merging``. It is ``published`` when the base has all of
its tables, and ``merged`` when its data have been removed, too. One that is removed instead is ``dropped`` where that
takes more than one step. A storage need not hold each of these states: it may tell by other means that a merge has
published, or that it has ended. A merge that was interrupted is finished by the next one, from the state in which it
left the environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from rivet_dagster.errors import Conflict, EnvironmentInUse, RivetError
from rivet_dagster.model.storage import Published
from rivet_dagster.project.environment_name import NAME


def missing_environment(name: str) -> RivetError:
    """Return RVT-415 for an environment that does not exist."""
    return RivetError("RVT-415", f"there is no environment '{name}'")


def merged_environment(name: str) -> RivetError:
    """Return RVT-415 for an environment that has been merged."""
    remedy = "Take another name: a merged environment is over."
    return RivetError("RVT-415", f"the environment '{name}' has been merged", remediation=remedy)


def half_merged_environment(name: str) -> RivetError:
    """Return RVT-415 for an environment whose merge has begun."""
    remedy = f"Finish the merge: rivet-dagster environment merge {name}"
    return RivetError("RVT-415", f"the environment '{name}' is being merged", remediation=remedy)


def of_another_profile(name: str, profile: str, wanted: str) -> RivetError:
    """Return RVT-416 for an environment of ``profile`` that is to be used with the ``wanted`` one."""
    return RivetError("RVT-416", f"the environment '{name}' is one of the profile '{profile}', not of '{wanted}'")


def environment_in_use(name: str) -> RivetError:
    """Return RVT-417 for an environment in which a run is alive."""
    remedy = "Wait until it has ended; a dead one counts for a minute."
    return RivetError("RVT-417", f"a run is writing in the environment '{name}'", remediation=remedy)


def table_not_built(name: str, table: str) -> RivetError:
    """Return RVT-417 for the watermark of a table that has not been built in an environment."""
    message = f"'{table}' has not been built in the environment '{name}'"
    return RivetError("RVT-417", message, remediation="Run it there first; or set the watermark of the base.")


def moved_base(name: str, tables: Iterable[str]) -> RivetError:
    """Return RVT-405 for tables whose base is not the one any more that an environment has built them upon."""
    message = f"the base of {', '.join(tables)} has moved since it was first written in the environment '{name}'"
    remedy = "Build it upon the base as it is now: drop the environment, and run it again under its name."
    return RivetError("RVT-405", message, remediation=remedy)


def merge_conflict(name: str, changed: Mapping[str, Iterable[str]]) -> RivetError:
    """Return RVT-405 for tables of which an environment and its base have changed the same in different ways."""
    tables = "; ".join(f"of {table} {', '.join(what)}" for table, what in changed.items())
    message = f"both the environment '{name}' and its base have changed since it was first written there: {tables}"
    remedy = "Build it upon the base as it is now: drop the environment, and run it again under its name."
    return RivetError("RVT-405", message, remediation=remedy)


OPEN, MERGING, PUBLISHED, MERGED, DROPPED = "open", "merging", "published", "merged", "dropped"


@dataclass(frozen=True)
class EnvironmentState:
    """What is known of an environment: its profile, when it was made and used last in ISO 8601, and its state."""

    profile: str
    created_at: str
    used_at: str
    state: str


S = TypeVar("S", bound=EnvironmentState)


class StateOfEnvironment(ABC, Generic[S]):
    """The state of the environment ``name`` in a storage."""

    name: str

    @abstractmethod
    def state(self) -> S | None:
        """Return the state; None if there is no such environment."""

    @abstractmethod
    def create(self, profile: str) -> None:
        """Make an open environment in one step; do nothing if it exists."""

    @abstractmethod
    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state, unless it is another one by now than ``instead_of``. Raises RVT-415 if there is none."""

    @abstractmethod
    def use(self, state: S) -> None:
        """Record that the environment in this ``state`` is used now, to the minute."""

    def is_merged(self) -> bool:
        """Return whether it is over because it has been merged."""
        state = self.state()
        return state is not None and state.state == MERGED

    def required(self, *states: str) -> S:
        """Return the state, which must be one of ``states``, else that of an open environment. Raises RVT-415."""
        state = self.state()
        if state is None or state.state == DROPPED:
            raise self._missing()
        if state.state in (states or (OPEN,)):
            return state
        raise merged_environment(self.name) if state.state == MERGED else half_merged_environment(self.name)

    def _missing(self) -> RivetError:
        return missing_environment(self.name)


def refuse_wrong_name(name: str) -> None:
    """Raise RVT-129 for a name that no environment can have."""
    if not NAME.fullmatch(name):
        raise RivetError("RVT-129", f"no environment can be called '{name}'")


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


class EnvironmentMerge(ABC, Generic[S]):
    """The merge of an environment into the base: the states are here, the steps are those of the storage."""

    @property
    @abstractmethod
    def environment(self) -> StateOfEnvironment[S]:
        """The environment."""

    @abstractmethod
    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment, in order."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""

    @abstractmethod
    def publish(self, tables: Sequence[BuiltTable], state: S) -> tuple[Published, ...]:
        """Publish the tables to the base, except for those that an interrupted merge has, and return their versions.

        Raises RVT-405 if the base of a table has moved.
        """

    @abstractmethod
    def remove_data(self, state: S) -> bool:
        """Remove what the environment still has of its tables; return whether nothing must stay for now."""

    def excluding_others(self, state: S) -> AbstractContextManager[object]:
        """Keep other merges, and drops, of the environment away during the block."""
        return nullcontext()

    def is_published(self, state: S) -> bool:
        """Return whether an interrupted merge has published all tables."""
        return state.state == PUBLISHED

    def published_before(self) -> tuple[Published, ...]:
        """Return the versions that an interrupted merge has published, where they are known."""
        return ()

    def moved(self, tables: Sequence[BuiltTable]) -> RivetError:
        """Return RVT-405 for tables whose base has moved."""
        return moved_base(self.environment.name, [table.table for table in tables])

    def end(self, state: S) -> None:
        """Remove the data, and record that the environment has been merged."""
        self.remove_data(state)
        self.environment.set(MERGED)

    def finish(self) -> tuple[Published, ...]:
        """Merge, from wherever an earlier merge was interrupted. Raises what ``HasEnvironments.merge`` does."""
        environment = self.environment
        with self.excluding_others(environment.required(OPEN, MERGING, PUBLISHED)):
            state = environment.required(OPEN, MERGING, PUBLISHED)
            environment.use(state)
            if self.is_published(state):
                published = self.published_before()
            else:
                published = self._publish_all(state)
                environment.set(PUBLISHED)
            self.end(state)
        return published

    def _publish_all(self, state: S) -> tuple[Published, ...]:
        self.environment.set(MERGING)
        try:
            # A run says that it is alive, then looks at the state: one of both is seen by the other.
            if self.is_alive():
                raise environment_in_use(self.environment.name)
            tables = self.built()
            self.refuse_moved(tables)
            return self.publish(tables, state)
        except (Conflict, EnvironmentInUse):  # there is something to do in the environment first
            self.environment.set(OPEN, instead_of=MERGING)
            raise

    def refuse_moved(self, tables: Sequence[BuiltTable]) -> None:
        """Raise RVT-405 if the base of a table has moved since it was first written in the environment."""
        others = [table for table in tables if table.moved]
        if others:
            raise self.moved(others)
