"""The transaction of a version that a run stages on its own branch of the server, and publishes with its snapshots."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.iceberg.commits.committing import Changes, OutcomeUnknownError, is_refusal
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, Definition, branch_is_at, set_branch
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.names import TableName, attempt_key
from rivet_dagster.catalogs.iceberg.nessie.one_commit import OneCommit
from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
from rivet_dagster.catalogs.iceberg.nessie.server import NessieConflictError
from rivet_dagster.catalogs.iceberg.opened import Opener
from rivet_dagster.catalogs.iceberg.reaching import translate_errors, unknown_outcome
from rivet_dagster.catalogs.iceberg.writes.errors import StagedErrors
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, head_of
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable
from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
from rivet_dagster.engines.contract import Frame
from rivet_dagster.errors import Conflict, OutcomeUnknown, RivetError
from rivet_dagster.model.storage import Provenance, Published, StoredRows
from rivet_dagster.model.write_plan import WritePlan

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from rivet_dagster.catalogs.iceberg.metadata.summary import PublicationFacts
    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
    from rivet_dagster.model.storage import Published


@dataclass(kw_only=True)
class NessieTransaction(IcebergTransaction):
    """A version that is staged on the branch of ``run``, and published on the branch of ``target`` by one commit.

    ``open`` opens a table as the run's branch has it, which is made by the first write.
    """

    run: RunCatalog
    target: NessieCatalog
    open: Opener
    _made: Provenance | None = None

    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Write on the run's branch."""
        self.begin_run(context.identity)
        super().write(plan, frame, context)

    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Write the errors on the run's branch."""
        self.begin_run("")
        return super().write_errors(table, frame)

    def share_errors(self, table: str) -> StoredRows | None:
        """Share the errors on the run's branch."""
        self.begin_run("")
        return super().share_errors(table)

    def begin_run(self, identity: str) -> None:
        """Make the branch of the run, unless there is one, and begin to send heartbeats."""
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the table {begin.declared}", "RVT-404"):
            self.send_heartbeats(identity)

    def send_heartbeats(self, identity: str) -> ObjectHeartbeat:
        if self.heartbeat is None:
            begin = self.beginning
            key = attempt_key(identity)
            heartbeat = ObjectHeartbeat(begin.location.io, begin.location.root, key)
            self.run.begin(key, begin.table, self.version, heartbeat)
            self.heartbeat, self.branch = heartbeat, key
            begin.errors.table = self.open(begin.declared)
            self.beginning = replace(begin, table=begin.errors.table)
        return self.heartbeat

    @property
    def names(self) -> list[TableName]:
        """The names of the table and of its error table, if it has one."""
        errors = self.beginning.errors.name
        return [self.beginning.table.name, *([self.open(errors).name] if errors is not None else [])]

    def check_base(self) -> None:
        """Compare the table with what it was when this was begun."""
        self.check_base_in(self.target)

    def _require_base(self, iceberg_table: Table | None) -> None:
        """Compare the columns and the layout that are current with those then, too."""
        begin = self.beginning
        now = Definition.of(iceberg_table.metadata) if iceberg_table is not None else None
        current = iceberg_table.metadata.current_snapshot_id if iceberg_table is not None else None
        if current == begin.upon and now != begin.begun:
            name = begin.table.published.name
            message = f"the columns or partitions of '{name}' have been changed by somebody else since"
            raise RivetError("RVT-405", message)
        super()._require_base(iceberg_table)

    def release_in(self, catalog: Catalog, identity: str) -> None:
        """Make the changes that publish the version, and namespaces that it needs, in another catalog."""
        if self.heartbeat is not None:
            self.heartbeat.require()
        for name in self.names:
            catalog.create_namespace_if_not_exists(name.namespace)
        super().release_in(catalog, identity)

    def _publication(self, identity: str, made: Provenance | None) -> PublicationFacts:
        return super()._publication(identity, made or self._made)

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        self._made = made
        with translate_errors(self.beginning.table.name.catalog, f"the table {self.beginning.declared}", "RVT-404"):
            try:
                (published,) = publish_together(self.target, [(self, identity)])
            except BaseException as error:
                self._outcome.is_unknown = not _is_known(error)
                raise
        return published

    def _publish_branch(self, release: Release, branch: StagedBranch, judged: int) -> None:
        carry(release, branch, judged)

    def _end(self) -> None:
        heartbeat, self.heartbeat = self.heartbeat, None  # until then no sweep tells of the branch
        errors = self.beginning.errors
        for staged in (self._staged, errors.staged):
            if isinstance(staged, StagingTable):
                staged.remove_folder()
        self._staged = errors.staged = None
        super()._end()
        self.run.remove()
        _ended(heartbeat)

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        heartbeat, self.heartbeat = self.heartbeat, None  # it ends once no sweep removes the branch
        super()._withhold(identity, made)
        with translate_errors(self.beginning.table.name.catalog, f"the table {self.beginning.declared}", "RVT-404"):
            if self._staged is not None:
                self.run.keep()
            else:
                self.run.remove()
        _ended(heartbeat)

    def _abort(self) -> None:
        self._rows.close()
        if self._outcome.is_unknown:  # the server may carry out the commit yet: a sweep removes the branch, and no file
            return
        with translate_errors(self.beginning.table.name.catalog, f"the table {self.beginning.declared}", "RVT-404"):
            for staged in (self._staged, self.beginning.errors.staged):
                if isinstance(staged, StagingTable):
                    staged.remove()
            _ended(self.heartbeat)  # before the branch, which alone knows where it is
            self.run.remove()


def _ended(heartbeat: ObjectHeartbeat | None) -> None:
    if heartbeat is not None:
        with suppress(OSError):
            heartbeat.end()


def _is_known(error: BaseException) -> bool:
    """Return whether a publication that ended by ``error`` has not happened, and will not."""
    if isinstance(error, RivetError):
        return not isinstance(error, OutcomeUnknown)
    return isinstance(error, Exception) and is_refusal(error)


_TRIES, _PAUSE = 20, 0.1


def publish_together(branch: NessieCatalog, staged: Sequence[tuple[IcebergTransaction, str]]) -> tuple[Published, ...]:
    """Publish versions under their identities. Raises what ``PublishesTogether.publish_together`` does, and RVT-419.

    Nessie refuses a commit if one of its tables has changed in any way since: it is made again upon the branch as it is
    then, if no other version of these tables has been published, and others have only staged theirs.
    """
    names = [str(transaction.beginning.table.published.name) for transaction, _ in staged]
    for number in range(_TRIES):
        commit = _released(branch, staged)
        try:
            commit.publish(f"Publish {', '.join(names)}")
            break
        except NessieConflictError as error:
            commit.discard()
            last = error
        except OutcomeUnknownError as error:
            identities = ", ".join(dict.fromkeys(identity for _, identity in staged))
            raise unknown_outcome(f"each of the tables {', '.join(names)}", identities, error) from error
        time.sleep(random.uniform(0, _PAUSE * 2 ** min(number, 5)))
    else:
        message = f"{', '.join(names)} are changed all the time by others: {last}"
        raise RivetError("RVT-405", message) from last
    return tuple(transaction.released() for transaction, _ in staged)


def _released(branch: NessieCatalog, staged: Sequence[tuple[IcebergTransaction, str]]) -> OneCommit:
    """Return the commit, not made yet, that publishes all versions. Raises RVT-405 for all tables that have moved."""
    commit = OneCommit(branch)
    transactions = (transaction for transaction, _ in staged if isinstance(transaction, NessieTransaction))
    names = [name for transaction in transactions for name in transaction.names]
    commit.look_up(key for name in names for key in (name.namespace, name.identifier))
    moved: list[RivetError] = []
    for transaction, _ in staged:
        try:
            transaction.check_base_in(commit)
        except Conflict as error:
            moved.append(error)
    if moved:
        raise RivetError.of(diagnostic for error in moved for diagnostic in error.diagnostics)
    try:
        for transaction, identity in staged:
            transaction.release_in(commit, identity)
    except BaseException:
        commit.discard()
        raise
    return commit


def carry(release: Release, branch: StagedBranch, head: int) -> None:
    """Publish ``branch``, whose head must still be ``head``, as the snapshot of ``release``.

    The snapshots before it go along, so that readers of what a version has appended find it; not so if the table has
    snapshots by now that are numbered alike, as for a version that was withheld. Raises RVT-405 and RVT-406 as
    ``Release.of_branch`` does, and RVT-407.
    """
    source = branch.table.load_if_any()
    if source is None:
        raise RivetError("RVT-406", f"the branch {branch.key} has been removed, by a sweep or by somebody")
    if head_of(source, branch.key) != head:
        message = f"the branch {branch.key} of '{release.table.name}' has changed since it was judged"
        raise RivetError("RVT-407", message)

    def changes(iceberg_table: Table) -> Changes:
        if release.is_done(iceberg_table):
            return Changes()
        before, metadata = _carried(iceberg_table, source, head)
        writer = SnapshotWriter(iceberg_table.io, metadata, release.snapshot_id, source.snapshot_by_id(head))
        added = writer.same_rows(release.properties)
        made = Changes(
            (*before, added, set_branch(MAIN, release.snapshot_id), *release.property_updates(iceberg_table)),
            (),
            (writer,),
        )
        return release.with_requirements(made.updates, (branch_is_at(MAIN, release.upon),), made)

    if isinstance(release.table.catalog, OneCommit):
        release.table.catalog.carried |= {snapshot.snapshot_id for snapshot in source.metadata.snapshots}
    release.commit_changes(changes)


def _carried(iceberg_table: Table, source: Table, head: int) -> tuple[tuple[TableUpdate, ...], TableMetadata]:
    """Return the updates that add the snapshots up to ``head``, and the metadata that the next one is numbered by."""
    from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata

    new = list(reversed([*_before(iceberg_table, source, head)]))
    next_number = iceberg_table.metadata.next_sequence_number()
    if new and (new[0].sequence_number or 0) < next_number:
        last = max(next_number, source.metadata.next_sequence_number()) - 1
        return (), iceberg_table.metadata.model_copy(update={"last_sequence_number": last})
    updates = tuple(AddSnapshotUpdate(snapshot=snapshot) for snapshot in new)
    return updates, update_table_metadata(iceberg_table.metadata, updates) if updates else iceberg_table.metadata


def _before(iceberg_table: Table, source: Table, head: int) -> Iterator[Snapshot]:
    """Yield the snapshots of ``source`` from ``head`` back to one that ``iceberg_table`` has."""
    current: int | None = head
    while current is not None and iceberg_table.snapshot_by_id(current) is None:
        snapshot = source.snapshot_by_id(current)
        if snapshot is None:
            return
        yield snapshot
        current = snapshot.parent_snapshot_id


@dataclass
class ErrorsOfRun(StagedErrors):
    """The errors of a version that are staged on the branch of a run."""

    def _publish_branch(self, release: Release, branch: StagedBranch, judged: int) -> None:
        carry(release, branch, judged)
