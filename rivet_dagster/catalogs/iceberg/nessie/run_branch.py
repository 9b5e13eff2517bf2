"""Branches of the server on which runs work, each with a record of what its run builds.

The record is a namespace, ``rivet_run``, whose properties are those of ``RunRecord``; nothing that is published has it.
A branch gets its name once it has the record and the run's first heartbeat, so that a sweep can tell whether it may
go::

    rivet_begin.main.rivet_1f_orders_5be2f7c3   made at the head of main, and given the record
    rivet_1f_orders_5be2f7c3                    made of it, with the first heartbeat; the other one is removed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat, heartbeat_at
from rivet_dagster.catalogs.iceberg.names import BRANCH
from rivet_dagster.catalogs.iceberg.nessie.server import (
    NAMESPACE,
    RUN,
    Content,
    Key,
    NessieNotFoundError,
    NessieServer,
    put,
)
from rivet_dagster.catalogs.iceberg.opened import Look, OpenedTable, look

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

RECORD: Key = (RUN,)

_BEGIN = "rivet_begin."


@dataclass(frozen=True)
class RunRecord:
    """The facts recorded of a run: the branch ``base`` that it publishes on, the ``table`` and the version there.

    ``heartbeat`` is a URI. ``kept`` is not empty for a version that is withheld, which no sweep removes.
    """

    base: str
    table: str
    version: str
    heartbeat: str
    kept: str = ""


@dataclass(frozen=True)
class RunBranch:
    """The branch ``ref`` of a run that publishes on the branch of the catalog ``base``.

    ``record`` is None for one that was only just made, by a run that is alive and makes it anew, or was killed.
    """

    base: NessieCatalog
    ref: str
    record: RunRecord | None

    @property
    def name(self) -> str:
        """The name of the table that is built there, and that of the branch."""
        key = self.ref.removeprefix(begun_ref(self.base.ref, ""))
        return key if self.record is None else f"{self.record.table}/{key}"

    @property
    def heartbeat(self) -> ObjectHeartbeat | None:
        """The heartbeat of the run; None before it has a record."""
        if self.record is None:
            return None
        return heartbeat_at(self.base._load_file_io(location=self.record.heartbeat), self.record.heartbeat)

    def is_alive(self) -> bool:
        """Return whether the run sends heartbeats."""
        heartbeat = self.heartbeat
        return heartbeat is not None and heartbeat.is_alive()

    @property
    def is_withheld(self) -> bool:
        """Whether the version is withheld there, so that only a person publishes or removes it."""
        return self.record is not None and self.record.kept != ""

    def without_mark(self) -> RunBranch:
        """Return it as one on which nothing is withheld."""
        return self if self.record is None else replace(self, record=replace(self.record, kept=""))

    @property
    def is_begun(self) -> bool:
        """Whether it has no heartbeat yet, and nothing is staged there."""
        return self.ref.startswith(_BEGIN)

    def exists(self) -> bool:
        """Return whether the branch has not been removed."""
        try:
            self.base.server.reference(self.ref)
        except NessieNotFoundError:
            return False
        return True

    def remove(self) -> bool:
        """Remove the branch, after the heartbeat, which nothing but the branch tells of, and return True.

        Files that it names are left to Nessie's garbage collection: a run that was taken for dead may be publishing
        them at this moment.
        """
        heartbeat = self.heartbeat
        if heartbeat is not None:
            heartbeat.end()
        self.base.server.remove(self.ref)
        return True


def begun_ref(base: str, key: str) -> str:
    """Return the name that the branch ``key`` of a run has before it has a heartbeat."""
    return f"{_BEGIN}{base}.{key}"


def branches_of_runs(
    catalog: Catalog, table: OpenedTable | None = None, version: str | None = None, look: Look = look
) -> Iterator[RunBranch]:
    """Yield the branches of runs that publish on the branch of ``catalog``: none if it is not one of Nessie.

    With ``table`` only those of runs that build it. With ``version`` those that build this version come first, found
    without a list of all branches if this process has listed them before.
    """
    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

    if type(catalog) is not NessieCatalog:
        return
    if table is not None:
        of_table = ".".join(table.name.identifier)
        known = _known_branches(catalog, of_table) if version is not None else ()
        yield from (branch for branch in known if branch.record is not None and branch.record.version == version)
        server = catalog.server
        yield from _branches_of_table(catalog, of_table, look(server, BRANCH, lambda: list(server.branches(BRANCH))))
        return
    for ref, record in _of_all_runs(catalog.server, begun_ref(catalog.ref, "")):
        if record is None or record.base == catalog.ref:
            yield RunBranch(catalog, ref, record)


_BUILT: dict[str, dict[str, tuple[str, str]]] = {}
"""The branch on which a run publishes, and the table that it builds, as this process has read them, by the server and
the name of the run's own branch. A branch of that name never builds another table."""

_MOST = 10_000
"""The number of branches beyond which those that do not exist any more are forgotten."""


def remember(server: NessieServer, ref: str, record: RunRecord) -> None:
    """Remember what a branch builds."""
    _BUILT.setdefault(server.uri, {})[ref] = record.base, record.table


def _known_branches(catalog: NessieCatalog, table: str) -> Iterator[RunBranch]:
    """Yield the branches of runs that build a table, of those that this process knows."""
    known = _BUILT.get(catalog.server.uri, {})
    for ref in [ref for ref, built in known.copy().items() if built == (catalog.ref, table)]:
        with suppress(NessieNotFoundError):
            yield RunBranch(catalog, ref, record_of(catalog.server, ref))


def _branches_of_table(catalog: NessieCatalog, table: str, refs: Sequence[str]) -> Iterator[RunBranch]:
    """Yield those of some branches on which runs build a table. The records of others are read once in this process."""
    wanted, begun = (catalog.ref, table), begun_ref(catalog.ref, "")
    known = _BUILT.setdefault(catalog.server.uri, {})
    if len(known) > _MOST:
        for ref in known.keys() - {*refs}:
            known.pop(ref, None)
    for ref in refs:
        is_begun = ref.startswith(begun)
        if ("." in ref and not is_begun) or known.get(ref, wanted) != wanted:
            continue
        with suppress(NessieNotFoundError):  # it has just been removed
            record = record_of(catalog.server, ref)
            if record is not None and not is_begun:
                remember(catalog.server, ref, record)
            if record is not None and (record.base, record.table) == wanted:
                yield RunBranch(catalog, ref, record)


def branches_without_base(catalog: NessieCatalog, prefix: str) -> Iterator[RunBranch]:
    """Yield the branches of runs that would publish on a branch, of a name with this prefix, that is gone."""
    there = set(catalog.server.branches(prefix))
    for ref, record in _of_all_runs(catalog.server, begun_ref(prefix, "").removesuffix(".")):
        base = record.base if record is not None else ref.removeprefix(_BEGIN).rpartition(".")[0]
        if base.startswith(prefix) and base not in there:
            yield RunBranch(catalog.at(base), ref, record)


def _of_all_runs(server: NessieServer, begun: str) -> Iterator[tuple[str, RunRecord | None]]:
    """Yield the branches of all runs with their records, and those without one that begin with ``begun``."""
    for ref in list(server.branches(BRANCH)):
        is_begun = ref.startswith(begun)
        if is_begun or "." not in ref:
            with suppress(NessieNotFoundError):  # it has just been removed
                record = record_of(server, ref)
                if is_begun or record is not None:
                    yield ref, record


def record_of(server: NessieServer, ref: str) -> RunRecord | None:
    """Return the record of a branch; None if it has none."""
    content = server.contents(ref, [RECORD])[1].get(RECORD)
    return None if content is None else RunRecord(**content["properties"])


def write_record(record: RunRecord, known: Content | None = None) -> dict[str, Any]:
    """Return the operation that writes a record, in place of a ``known`` one."""
    id_ = {"id": known["id"]} if known is not None else {}
    return put(RECORD, {"type": NAMESPACE, "elements": list(RECORD), "properties": asdict(record), **id_})
