"""The transaction of a new version: on a branch if the table stays as it is, else in a staging table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.staging import StagedTransaction
from rivet_dagster.catalogs.capabilities.targets import ErrorTransaction, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.iceberg.commits.committing import Outcome, OutcomeUnknownError
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.summary import PublicationFacts, TextBounds
from rivet_dagster.catalogs.iceberg.metadata.text_bounds import bounds_after, recorded_bounds
from rivet_dagster.catalogs.iceberg.names import attempt_key
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import translate_errors, unknown_outcome
from rivet_dagster.catalogs.iceberg.writes.errors import BegunWrite, ExistingVersion
from rivet_dagster.catalogs.iceberg.writes.native import NativeWrite, fits, overwritable_by, separates_closed
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, begin_branch
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable
from rivet_dagster.catalogs.iceberg.writes.withheld import Judged, describe_staged, require_staged, stage, withhold
from rivet_dagster.catalogs.rewriting.rewrite import WrittenRows, rewritten
from rivet_dagster.catalogs.versions.facts import record_of, update_provenance
from rivet_dagster.catalogs.versions.refusals import overtaken
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Base, Provenance, Published, StoredRows
from rivet_dagster.model.write_plan import WritePlan

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass
class IcebergTransaction(StagedTransaction, VersionTransaction, ErrorTransaction):
    """A version that is staged by ``write``, or that exists already as ``origin``.

    Its name is the id of the snapshot that its publication makes.
    """

    beginning: BegunWrite
    snapshot_id: int
    session: EngineSession | None = None
    origin: ExistingVersion | None = None
    _staged: StagedBranch | StagingTable | None = None
    heartbeat: ObjectHeartbeat | None = None
    _outcome: Outcome = field(default_factory=Outcome)
    _text_bounds: TextBounds = ()

    def __post_init__(self) -> None:
        self.table = self.beginning.declared
        self.version = str(self.snapshot_id)
        self._rows = WrittenRows(self._existing_rows)
        if self.origin is not None:
            self._staged = self.origin.staged
            self.branch = self.origin.key
        self.beginning.errors.snapshot_id = self.snapshot_id

    @property
    def base(self) -> Base | None:
        """The snapshot that was current when the transaction was begun."""
        return self.beginning.base

    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Write on a branch by Iceberg's own statements; a new table, or new columns, to a staging table."""
        assert self.session is not None, "only an engine computes rows"
        begin, session = self.beginning, self.session
        with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}", "RVT-404"):
            heartbeat = self.send_heartbeats(context.identity)
            key = heartbeat.key
            native = begin.base is not None and begin.natively and fits(begin, plan, session, frame, context)
            staged = StagingTable(
                begin.table.staged(key),
                begin.location,
                heartbeat,
                session,
                begin.base,
                begin.rows_before,
                begin.layout,
            )
            branch = begin_branch(begin.table, key, begin.upon) if begin.base is not None else None
            if native:
                assert begin.base is not None and branch is not None
                self._staged = branch
                write = NativeWrite(
                    branch,
                    session,
                    begin.base,
                    begin.rows_before,
                    staged.batch_table("_batch"),
                    overwritable_by(begin.location, begin.upon),
                    separates_closed(begin.location, plan),
                    plan,
                    context,
                )
                self.query_plan = self._rows.write(write.carried_out(frame))
            else:
                staged.fence = branch
                self._staged = staged
                self.query_plan = self._rows.write(rewritten(staged, plan, frame, context))
            self._text_bounds = bounds_after(begin.location.existing, begin.upon, self._staged.table.load(), native)

    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Write the errors on a branch of their own table."""
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the error table {table}", "RVT-404"):
            return begin.errors.add(table, frame, self.send_heartbeats(""), self.session)

    def share_errors(self, table: str) -> StoredRows | None:
        """Begin the branch of the error table with the errors of the version that this one builds upon."""
        begin = self.beginning
        if begin.upon is None:
            return None
        with translate_errors(begin.table.name.catalog, f"the error table {table}", "RVT-404"):
            return begin.errors.share(table, begin.upon, self.send_heartbeats(""), self.session)

    def send_heartbeats(self, identity: str) -> ObjectHeartbeat:
        """Begin to send heartbeats, with the first thing that is staged."""
        if self.heartbeat is None:
            begin = self.beginning
            self.branch = attempt_key(identity)
            heartbeat = ObjectHeartbeat(begin.location.io, begin.location.root, self.branch)
            heartbeat.begin()
            self.heartbeat = heartbeat
        return self.heartbeat

    def put(self, rows: Any) -> bool:
        """Return False: only an engine writes the files."""
        return False

    @property
    def batch(self) -> StoredRows:
        """The batch."""
        return self._rows.result.batch

    @property
    def whole(self) -> StoredRows:
        """All rows, as the branch or the staging table holds them."""
        return self._rows.result.whole

    def beat(self) -> None:
        """Renew the heartbeat beside the table's metadata."""
        if self.heartbeat is not None:
            with translate_errors(self.beginning.table.name.catalog, "a heartbeat"):
                self.heartbeat.beat()

    def _existing_rows(self) -> StoredRows:
        if self.origin is None:
            raise RivetError("RVT-402", "nothing has been written")
        return self.origin.stored()

    def _publication(self, identity: str, made: Provenance | None) -> PublicationFacts:
        if self.origin is not None:
            known = self.origin.publication.again(identity, self.beginning.rows_before)
            made = update_provenance(Provenance(known.inputs, known.code_versions), made)
            known = replace(known, inputs=made.inputs, code_versions=made.code_versions)
            if self.origin.snapshot is None or self.beginning.location.existing is None:
                return known
            bounds = recorded_bounds(self.beginning.location.existing, self.origin.snapshot)
            return replace(known, text_bounds=bounds)
        rows, before = self.whole.statistics.rows, self.beginning.rows_before
        record = record_of(self._rows.record, self.whole.statistics, before)
        made = made or Provenance()
        return PublicationFacts(identity, "", rows, before, record, made.inputs, made.code_versions, self._text_bounds)

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}", "RVT-404"):
            properties = self._publication(identity, made).properties()
            try:
                with begin.errors.published(identity, self._outcome) as marks:
                    self._release(begin.table, properties | marks)
            except OutcomeUnknownError as error:
                raise unknown_outcome(f"the table {begin.table.name}", identity, error) from error
        published = self._described()
        self._end()
        return published

    def release_in(self, catalog: Catalog, identity: str) -> None:
        """Make the changes that publish the version in another catalog, which commits them later."""
        begin = self.beginning
        properties = self._publication(identity, None).properties()
        with begin.errors.within(catalog).published(identity, self._outcome) as marks:
            self._release(OpenedTable(catalog, begin.table.published.name), properties | marks)

    def released(self) -> Published:
        """Return the version that those changes have published, and remove what it does not need any more."""
        if self._published is None:
            begin = self.beginning
            with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}", "RVT-404"):
                self._published = self._described()
                self._ended = True
                self._end()
        return self._published

    def _described(self) -> Published:
        begin = self.beginning
        return replace(begin.described(self.snapshot_id), environment=begin.environment)

    def _release(self, table: OpenedTable, properties: dict[str, str]) -> None:
        begin = self.beginning
        release = Release(
            table,
            begin.upon,
            self.snapshot_id,
            properties,
            begin.layout,
            begun=begin.begun,
            outcome=self._outcome,
        )
        if self.heartbeat is not None:
            self.heartbeat.require()
        match self._staged:
            case StagedBranch() as branch:
                judged = self._judged
                assert judged is not None
                self._publish_branch(release, branch, judged)
            case StagingTable() as staged:
                release.of_table(staged, self._judged)
            case None:
                assert self.origin is not None and self.origin.snapshot is not None
                release.of_snapshot(self.origin.snapshot)

    def _publish_branch(self, release: Release, branch: StagedBranch, judged: int) -> None:
        release.of_branch(branch.key, judged)

    @property
    def _judged(self) -> int | None:
        """The snapshot that was judged, which is still the head unless somebody else wrote there; None without rows."""
        relation = self.whole.relation
        assert isinstance(relation, CatalogTable)
        return relation.snapshot

    @property
    def _facts(self) -> Judged:
        return Judged(self._judged, self.beginning.errors.judged, self.beginning.begun)

    def _end(self) -> None:
        """Remove what the published version does not need any more."""
        self._rows.close()
        if isinstance(self._staged, StagingTable):
            self._staged.remove()
        self._staged = None
        self.beginning.errors.end()
        if self.heartbeat is not None:
            with suppress(OSError):
                self.heartbeat.end()

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}", "RVT-404"):
            made_by = identity or (self.origin.publication.identity if self.origin is not None else "")
            publication = self._publication(made_by, made)
            if self._staged is not None:
                assert self.branch is not None
                withhold(self._staged.table, self.branch, self.version, publication, begin.errors.name, self._facts)
                begin.errors.withhold(self.branch)
            if isinstance(self._staged, StagingTable) and self._staged.fence is not None:
                self._staged.fence.remove()
        self._rows.close()
        if self.heartbeat is not None:
            self.heartbeat.end()

    def _stage(self, identity: str, made: Provenance | None) -> Published:
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}", "RVT-404"):
            assert self._staged is not None and self.branch is not None
            publication = self._publication(identity, made)
            facts = self._facts
            stage(self._staged.table, self.branch, self.version, publication, begin.errors.name, facts, begin.upon)
            version = require_staged(begin.table, self.version, self.branch)
            staged = describe_staged(version, begin.table.name.catalog, self.table)
        self._rows.close()
        return replace(staged, environment=begin.environment)

    def check_base(self) -> None:
        """Compare the current snapshot with the one that was current when this was begun."""
        self.check_base_in(self.beginning.table.catalog)

    def check_base_in(self, catalog: Catalog) -> None:
        """Compare the snapshot that is current in another catalog with it. Raises RVT-405."""
        begin = self.beginning
        with translate_errors(begin.table.name.catalog, f"the table {begin.table.name}"):
            self._require_base(OpenedTable(catalog, begin.table.published.name).load_if_any())

    def _require_base(self, iceberg_table: Table | None) -> None:
        begin = self.beginning
        current = iceberg_table.metadata.current_snapshot_id if iceberg_table is not None else None
        if current not in (begin.upon, self.snapshot_id):
            raise overtaken(str(begin.table.published.name))

    def _abort(self) -> None:
        """Remove what was staged, unless a commit that needs it may still be carried out."""
        self._rows.close()
        if self._outcome.is_unknown or self.beginning.errors.outcome.is_unknown:
            return
        with translate_errors(self.beginning.table.name.catalog, f"the table {self.beginning.table.name}", "RVT-404"):
            if self._staged is not None:
                self._staged.remove()
            self.beginning.errors.remove()
        if self.heartbeat is not None:
            with suppress(OSError):
                self.heartbeat.end()
