"""The branch of an environment, and the namespaces on it that say what the environment is.

The properties of the namespace ``rivet_environment`` are its profile, times and state; each table that was to be
written there has a namespace below it, whose properties say upon which snapshot of the base::

    rivet_environment               profile, created_at, used_at, state, token, base (a hash of the base branch)
    rivet_environment.shop:orders   declared, snapshot, version, metadata

No readers look there, and a merge leaves it out. A merged environment is a tag at the commit of its merge.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from rivet_dagster.catalogs.environments.state import (
    MERGED,
    OPEN,
    PUBLISHED,
    EnvironmentState,
    StateOfEnvironment,
    merged_environment,
    missing_environment,
    refuse_wrong_name,
)
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.nessie.server import (
    ENVIRONMENT,
    NAMESPACE,
    TABLE,
    Content,
    Key,
    NessieConflictError,
    NessieNotFoundError,
    NessieServer,
    Reference,
    delete,
    put,
)
from rivet_dagster.errors import RivetError

STATE: Key = (ENVIRONMENT,)

_BRANCH, _MERGED = "rivet_env", "rivet_merged"
_PRECISION = timedelta(minutes=1)
_TRIES = 20

Changes = Callable[[Mapping[Key, Content]], list[dict[str, Any]]]


@dataclass(frozen=True)
class BranchState(EnvironmentState):
    """The state on an environment's branch; ``base`` is the hash of the base's branch from which it was made."""

    token: str
    base: str


@dataclass(frozen=True)
class Seed:
    """The snapshot of the base that a table of an environment builds upon, and its version; empty without one.

    ``declared`` is the table's name as the joint has it, empty for an error table; ``metadata`` is the metadata file of
    the base's table, empty in seeds of earlier releases.
    """

    declared: str
    snapshot: str
    version: str
    metadata: str


@dataclass(frozen=True)
class EnvironmentBranch(StateOfEnvironment[BranchState]):
    """The environment ``name`` of the branch ``base`` of a server."""

    server: NessieServer
    base: str
    name: str

    def __post_init__(self) -> None:
        refuse_wrong_name(self.name)

    @property
    def ref(self) -> str:
        """The name of the branch."""
        return f"{branches_of(self.base)}{self.name}"

    @property
    def merged_ref(self) -> str:
        """The name of the tag of an environment that has been merged."""
        return f"{tags_of(self.base)}{self.name}"

    def state(self) -> BranchState | None:
        """Return the state; None if there is no such environment, or if it has been merged."""
        return _state(self.contents([STATE]).get(STATE))

    def is_merged(self) -> bool:
        """Return whether there is the tag of its merge, and no branch of an environment of the name."""
        return self._has_tag() and self.state() is None

    def _has_tag(self) -> bool:
        try:
            self.server.reference(self.merged_ref)
        except NessieNotFoundError:
            return False
        return True

    def _missing(self) -> RivetError:
        return merged_environment(self.name) if self._has_tag() else missing_environment(self.name)

    def create(self, profile: str) -> None:
        """Make the environment at the base as it is now, without what runs are staging there, if there is none."""
        self.server.make(self.ref, self._base())
        staged = [key for key, type_ in self.server.entries(self.ref) if type_ == TABLE and staging_of(key[-1])]
        now = _now().isoformat(timespec="milliseconds")

        def changes(contents: Mapping[Key, Content]) -> list[dict[str, Any]]:
            if STATE in contents:
                return []
            head = self.server.reference(self.ref)
            state = BranchState(profile, now, now, OPEN, secrets.token_hex(4), head.hash)
            return [put(STATE, _described(STATE, asdict(state))), *(delete(key) for key in staged if key in contents)]

        self.change(f"Make the environment {self.name}", [STATE, *staged], changes)

    def _base(self) -> Reference:
        """Return the base as it is now; one without commits gets two that undo each other.

        Branches that have no commit in common cannot be merged.
        """
        base = self.server.reference(self.base)
        if base.hash == self.server.no_commit:
            with suppress(NessieConflictError):  # another process does it, too
                begun = self.server.commit(base, "First commit", [put(STATE, _described(STATE, {}))])
                return self.server.commit(begun, "Undo the first commit", [delete(STATE)])
            base = self.server.reference(self.base)
        return base

    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state; that a merge has published, and has ended, its commit and its tag say. Raises RVT-415."""
        if state not in (PUBLISHED, MERGED):
            self._set(instead_of, state=state)

    def use(self, state: BranchState) -> None:
        """Record that it is used now, to the minute."""
        now = _now()
        if now - datetime.fromisoformat(state.used_at) > _PRECISION:
            self._set(used_at=now.isoformat(timespec="milliseconds"))

    def _set(self, instead_of: str | None = None, **values: str) -> None:
        def changes(contents: Mapping[Key, Content]) -> list[dict[str, Any]]:
            known = _state(contents.get(STATE))
            if known is None:
                raise missing_environment(self.name)
            if instead_of not in (None, known.state):
                return []
            described = _described(STATE, asdict(replace(known, **values)))
            return [put(STATE, {**described, "id": contents[STATE]["id"]})]

        self.change(f"Change the environment {self.name}", [STATE], changes)

    def seeds(self) -> list[Seed]:
        """Return the seeds of all tables that have one, in the order of the tables."""
        try:
            entries = list(self.server.entries(self.ref))
        except NessieNotFoundError:
            return []
        marks = [key for key, type_ in entries if type_ == NAMESPACE and key[0] == ENVIRONMENT and len(key) > 1]
        contents = self.contents(marks) if marks else {}
        return [seed_in(content) for _, content in sorted(contents.items())]

    def seed(self, table: Key) -> Seed | None:
        """Return the seed of a table; None without one."""
        content = self.contents([seed_key(table)]).get(seed_key(table))
        return seed_in(content) if content is not None else None

    def contents(self, keys: list[Key]) -> dict[Key, Content]:
        """Return the contents of keys of the environment; none if there is no such environment."""
        try:
            return self.server.contents(self.ref, keys)[1]
        except NessieNotFoundError:
            return {}

    def change(self, message: str, keys: list[Key], changes: Changes) -> None:
        """Commit the operations that ``changes`` returns for the contents of ``keys``, none if it is not needed."""
        for _ in range(_TRIES):
            head, contents = self.server.contents(self.ref, keys)
            operations = changes(contents)
            if not operations:
                return
            try:
                self.server.commit(Reference(self.ref, head), message, operations)
                return
            except NessieConflictError as error:
                last = error
        raise RivetError("RVT-405", f"the branch {self.ref} is changed all the time by others: {last}") from last


def branches_of(base: str) -> str:
    """Return what the names of the branches of a base's environments begin with; no environment's name has a dot."""
    return f"{_BRANCH}.{base}."


def tags_of(base: str) -> str:
    """Return what the names of the tags of a base's merged environments begin with."""
    return f"{_MERGED}.{base}."


def seed_key(table: Key) -> Key:
    """Return the key of a table's seed.

    >>> seed_key(("shop.eu", "orders"))
    ('rivet_environment', 'shop%2Eeu:orders')
    """
    return (ENVIRONMENT, ":".join(quote(part, safe="").replace(".", "%2E") for part in table))


def seed_in(content: Content) -> Seed:
    """Return the seed that a content records; those of earlier releases have other properties beside."""
    known = content["properties"]
    return Seed(known["declared"], known["snapshot"], known["version"], known.get("metadata", ""))


def record_seed(table: Key, seed: Seed, known: Content | None) -> dict[str, Any]:
    """Return the operation that records a seed in place of a ``known`` one."""
    key = seed_key(table)
    return put(key, {**_described(key, asdict(seed)), **({"id": known["id"]} if known is not None else {})})


def _state(content: Content | None) -> BranchState | None:
    return BranchState(**content["properties"]) if content is not None else None


def _described(key: Key, properties: Mapping[str, str]) -> dict[str, Any]:
    return {"type": NAMESPACE, "elements": list(key), "properties": dict(properties)}


def _now() -> datetime:
    return datetime.now(UTC)
