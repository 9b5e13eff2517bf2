"""The tables that a run builds upon, and once it has begun those of the run's own branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
from rivet_dagster.catalogs.iceberg.nessie.run_branch import (
    RECORD,
    RunBranch,
    RunRecord,
    begun_ref,
    remember,
    write_record,
)
from rivet_dagster.catalogs.iceberg.nessie.server import (
    Content,
    ContentsAtCommit,
    Key,
    NessieConflictError,
    NessieNotFoundError,
    Reference,
)
from rivet_dagster.catalogs.iceberg.opened import OpenedTable

_TRIES = 5


class RunCatalog(NessieCatalog):
    """The tables of the branch of ``base`` as they are at one commit, until ``begin`` makes the branch of a run.

    From then on they are those of the run's branch; ``ref`` is one that exists. Namespaces that are created before the
    run has begun are made with its branch.
    """

    def __init__(self, base: NessieCatalog, ref: str | None = None) -> None:
        super().__init__(base.name, **base.properties)
        self._base_ref = base.ref
        self._before = ContentsAtCommit(base.server, base.server.reference(base.ref)) if ref is None else None
        self._own_ref = ref
        self._waiting: dict[Key, dict[str, Any]] = {}

    @property
    def branch(self) -> str | None:
        """The branch of the run; None before it has begun."""
        return self._own_ref

    @property
    def ref(self) -> str:
        """The branch of the run; before it has begun the commit that it builds upon."""
        if self._own_ref is not None:
            return self._own_ref
        assert self._before is not None
        return f"{self._before.reference.name}@{self._before.reference.hash}"

    def begin(self, key: str, table: OpenedTable, version: str, heartbeat: ObjectHeartbeat) -> None:
        """Make the branch ``key`` of a run that builds a version of ``table``, and send the first heartbeat.

        Raises NessieNotFoundError if the branch that it builds upon has been removed.
        """
        assert self._before is not None
        head = self._before.reference
        record = RunRecord(self._base_ref, ".".join(table.name.identifier), version, heartbeat.path)
        begun = begun_ref(self._base_ref, key)
        for number in range(_TRIES):
            try:
                self.server.make(begun, head)
                operations = [write_record(record), *self._waiting.values()]
                made = self.server.commit(Reference(begun, head.hash), f"Begin {record.table}", operations)
                heartbeat.begin()
                self.server.make(key, made)
                break
            except (NessieNotFoundError, NessieConflictError):  # a sweep came before the heartbeat
                self.server.remove(begun)
                if number == _TRIES - 1:
                    heartbeat.end()
                    raise
        self._own_ref = key
        remember(self.server, key, record)
        self.server.remove(begun)

    def keep(self) -> None:
        """Have no sweep remove the branch."""
        head, contents = self._found([RECORD])
        known = contents[RECORD]
        record = replace(RunRecord(**known["properties"]), kept="withheld")
        self.server.commit(Reference(self.ref, head), f"Withhold {record.table}", [write_record(record, known)])

    def remove(self) -> None:
        """Remove the branch of the run, if it has one."""
        if self._own_ref is not None:
            self.server.remove(self._own_ref)

    def _found(self, keys: list[Key]) -> tuple[str, Mapping[Key, Content]]:
        if self._own_ref is None:
            assert self._before is not None
            # What is asked for next, of a table that does not exist, is its namespace.
            self._before.look_up([*keys, *(key[:-1] for key in keys if len(key) > 1)])
            return self._before.reference.hash, self._before.of(keys)
        try:
            return super()._found(keys)
        except NessieNotFoundError:
            return "", {}  # a sweep has removed the branch, with all that was staged there

    def _entries(self) -> list[tuple[Key, str]]:
        try:
            return super()._entries()
        except NessieNotFoundError:
            if self._own_ref is None:
                raise
            return []

    def _commit(self, head: str, message: str, *operations: dict[str, Any]) -> None:
        if self._own_ref is None:
            self._waiting |= {tuple(each["key"]["elements"]): each for each in operations}
        else:
            super()._commit(head, message, *operations)


@dataclass(frozen=True, kw_only=True)
class TableOfRun(OpenedTable):
    """A table on the branch of a run, which readers find as the ``target`` is."""

    target: OpenedTable

    @property
    def published(self) -> OpenedTable:
        """The table of the same name that readers see."""
        return self.target.beside(replace(self.name, ref=self.target.name.ref))


def opened_on(branch: RunBranch, table: OpenedTable) -> OpenedTable:
    """Return a table as the branch of a run has it."""
    return TableOfRun(RunCatalog(branch.base, branch.ref), replace(table.name, ref=branch.ref), target=table)
