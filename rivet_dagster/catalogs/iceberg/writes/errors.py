"""The beginning of a transaction, and its error table, published just before the rows and naming their snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, Outcome, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, Definition, branch_is_at, set_branch
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout
from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT, ERRORS, ERRORS_OF, IDENTITY, PublicationFacts
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, begin_branch
from rivet_dagster.catalogs.iceberg.writes.staged_table import (
    StagingTable,
    VersionLocation,
    locate_version,
    unmark_publishing,
)
from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_leftovers
from rivet_dagster.catalogs.iceberg.writes.withheld import Judged, withhold
from rivet_dagster.catalogs.versions.facts import has_error_columns
from rivet_dagster.catalogs.versions.refusals import other_table, refuse_second_errors
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.row_errors import ERROR_SCHEMA
from rivet_dagster.model.storage import Base, Published, StoredRows

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass
class StagedErrors:
    """The errors of one version of ``table``, none until ``add`` is called.

    ``snapshot_id`` is the one that will publish the rows; ``older`` is the snapshot of an error table that is published
    again, ``judged`` the one that has all errors that have been added. ``open`` opens a table by the name that joints
    give it; ``outcome`` says whether it is known what has become of the commit that publishes the errors.
    """

    table: OpenedTable
    open: Opener
    snapshot_id: int = 0
    name: str | None = None
    staged: StagedBranch | StagingTable | None = None
    older: int | None = None
    judged: int | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _location: VersionLocation | None = None
    _upon: int | None = None
    _key: str = field(default="")

    def add(
        self, name: str, frame: Frame | None, heartbeat: ObjectHeartbeat, session: EngineSession | None
    ) -> StoredRows:
        """Add the rows of ``frame`` to the error table ``name``, and return all of them. Raises RVT-404."""
        if self.staged is None:
            self._begin(name, heartbeat, session)
        else:
            refuse_second_errors(f"'{self.table.name}'", self.name, name)
        assert self.staged is not None
        if frame is not None:
            assert session is not None, "only an engine computes rows"
            match self.staged:
                case StagedBranch() as branch:
                    with branch.statement(adds=True):
                        session.write(frame, branch.target)
                case StagingTable() as staged:
                    staged.append(frame, session)
        stored = self.stored()
        self.judged = stored.relation.snapshot if isinstance(stored.relation, CatalogTable) else None
        return stored

    def share(
        self, name: str, version: int, heartbeat: ObjectHeartbeat, session: EngineSession | None
    ) -> StoredRows | None:
        """Begin with the errors of the rows of ``version``, and return them; None if there are none.

        None also where the table lacks a column, as one of an earlier release does.
        """
        iceberg_table = self.open(name).load_if_any()
        base = errors_of_rows(iceberg_table, version) if iceberg_table is not None else None
        if iceberg_table is None or base is None or not has_columns(iceberg_table):
            return None
        self._begin(name, heartbeat, session, base)
        return self.add(name, None, heartbeat, session)

    def stored(self) -> StoredRows:
        """Return all errors that have been added."""
        if isinstance(self.staged, StagedBranch):
            return self.staged.look().whole()
        assert self.staged is not None
        return self.staged.audit()

    def adopt(
        self,
        name: str,
        location: VersionLocation,
        staged: StagedBranch | StagingTable | None,
        older: int | None = None,
        judged: int | None = None,
    ) -> None:
        """Take over errors that exist already: those of a withheld version, or of an older one."""
        self.name, self.staged, self.older, self.judged, self._location = name, staged, older, judged, location
        iceberg_table = location.of.load_if_any()
        self._upon = iceberg_table.metadata.current_snapshot_id if iceberg_table is not None else None

    def within(self, catalog: Catalog) -> StagedErrors:
        """Return the same errors, to be published in another catalog, which commits them later."""
        location = self._location
        if location is not None:
            location = replace(location, of=OpenedTable(catalog, location.of.name))
        return replace(self, table=OpenedTable(catalog, self.table.name), _location=location)

    @contextmanager
    def published(self, identity: str, of_rows: Outcome) -> Iterator[dict[str, str]]:
        """Publish the errors, run the block that publishes the rows, and take the errors back if that raises.

        They stay as long as ``of_rows``, what is known of that block's commit, does not exclude that it is carried out.
        Yield the properties by which the rows name their errors.
        """
        if self._location is None or self.name is None:
            yield {}
            return
        release = self._released(identity)
        try:
            yield {ERRORS: self.name}
        except BaseException:
            if not of_rows.is_unknown:
                self._take_back(release)
            raise

    def end(self) -> None:
        """Remove what published errors do not need any more."""
        if isinstance(self.staged, StagingTable):
            self.staged.remove()
        self.staged = None

    def remove(self) -> None:
        """Remove what has been staged."""
        if self.staged is not None:
            self.staged.remove()
            self.staged = None

    def withhold(self, key: str) -> None:
        """Have no sweep remove what has been staged."""
        if self.staged is not None:
            withhold(self.staged.table, key, str(self.snapshot_id), None, None, Judged(self.judged))
        if isinstance(self.staged, StagingTable) and self.staged.fence is not None:
            self.staged.fence.remove()

    def _begin(
        self, name: str, heartbeat: ObjectHeartbeat, session: EngineSession | None, base: int | None = None
    ) -> None:
        """Begin with the errors of the snapshot ``base`` of the table; without one, or if it is new, with none."""
        opened = self.open(name)
        location = locate_version(opened)
        self._refuse_another(opened, location)
        self.name, self._location, self._key = name, location, heartbeat.key
        remove_leftovers(opened, location.io, location.root)
        existing, key = location.existing, heartbeat.key
        if existing is not None:
            self._upon = existing.metadata.current_snapshot_id
        if existing is not None and has_columns(existing):
            self.staged = begin_branch(opened, key, base or self._upon, emptied=base is None)
            return
        staged = StagingTable(opened.staged(key), location, heartbeat, session)
        staged.make(ERROR_SCHEMA)
        self.staged = staged
        if existing is not None:
            staged.fence = begin_branch(opened, key, self._upon)

    def _refuse_another(self, opened: OpenedTable, location: VersionLocation) -> None:
        """Raise RVT-404 if the name is that of another table."""
        identifier = ".".join(self.table.name.identifier)
        of = location.existing.metadata.properties.get(ERRORS_OF) if location.existing is not None else identifier
        if of != identifier or opened.name == self.table.name:
            raise other_table(str(opened.name), str(self.table.name))

    def _released(self, identity: str) -> Release:
        assert self._location is not None
        identifier = ".".join(self.table.name.identifier)
        properties = {DATA_SNAPSHOT: str(self.snapshot_id), ERRORS_OF: identifier, IDENTITY: identity}
        opened = self._location.of
        iceberg_table = opened.load_if_any()
        known = errors_snapshot(iceberg_table, self.snapshot_id) if iceberg_table is not None else None
        if iceberg_table is not None and known is not None and known == iceberg_table.metadata.current_snapshot_id:
            # An attempt that was killed before it published the rows has published the errors.
            before = [entry.snapshot_id for entry in iceberg_table.metadata.snapshot_log if entry.snapshot_id != known]
            self._upon = before[-1] if before else None
            return Release(opened, self._upon, known, properties)
        existing = self._location.existing
        begun = Definition.of(existing.metadata) if existing is not None else None
        marks = {ERRORS_OF: identifier}
        new, outcome = new_snapshot_id(), self.outcome
        release = Release(opened, self._upon, new, properties, marks=marks, begun=begun, outcome=outcome)
        match self.staged:
            case StagedBranch() as branch:
                assert self.judged is not None
                self._publish_branch(release, branch, self.judged)
            case StagingTable() as staged:
                release.of_table(staged, self.judged)
            case None:
                assert self.older is not None
                release.of_snapshot(self.older)
        return release

    def _publish_branch(self, release: Release, branch: StagedBranch, judged: int) -> None:
        release.of_branch(branch.key, judged)

    def _take_back(self, release: Release) -> None:
        """Have readers of the error table see what they saw before, unless others have published errors since."""
        rows = self.table.load_if_any()
        if rows is not None and rows.snapshot_by_id(self.snapshot_id) is not None:
            return  # interrupted after the commit: the rows that name these errors are published
        opened, upon = release.table, self._upon
        if upon is None:
            iceberg_table = opened.load_if_any()
            if iceberg_table is not None and iceberg_table.metadata.current_snapshot_id == release.snapshot_id:
                opened.catalog.purge_table(opened.name.identifier)
                if isinstance(self.staged, StagingTable):
                    unmark_publishing(self.staged.table)
            return

        def changes(iceberg_table: Table) -> Changes:
            if iceberg_table.metadata.current_snapshot_id != release.snapshot_id:
                return Changes()
            return Changes((set_branch(MAIN, upon),), (branch_is_at(MAIN, release.snapshot_id),))

        commit(opened.load, changes, str(opened.name))


def errors_of_rows(errors: Table, version: int) -> int | None:
    """Return the snapshot of an error table with the errors of a version, as other engines have left them since.

    None if there is none, or it has expired.
    """
    published = (entry.snapshot_id for entry in reversed(errors.metadata.snapshot_log))
    for snapshot in map(errors.snapshot_by_id, published):
        last = last_publication(errors, snapshot) if snapshot is not None else None
        if snapshot is not None and last is not None and last.facts.get(DATA_SNAPSHOT) == str(version):
            return int(snapshot.snapshot_id)
    return errors_snapshot(errors, version)


def errors_snapshot(errors: Table, data_snapshot: int) -> int | None:
    """Return the snapshot of an error table that was published with these rows; None if none was, or it has expired."""
    for snapshot in reversed(errors.metadata.snapshots):
        known = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if known.get(DATA_SNAPSHOT) == str(data_snapshot):
            return int(snapshot.snapshot_id)
    return None


def has_columns(errors: Table) -> bool:
    """Return whether an error table has all of ERROR_COLUMNS, as it lacks some if an earlier release has made it."""
    return has_error_columns({field.name for field in errors.schema().fields})


@dataclass(frozen=True)
class BegunWrite:
    """The state that a transaction begins with.

    ``declared`` is the table's name as the joint has it; ``upon`` is the current snapshot of the table, ``rows_before``
    the number of its rows, ``begun`` what the table was besides them. ``base`` and ``begun`` are None only if the table
    does not exist. ``described`` returns the published version of a snapshot. ``natively`` says that statements of
    Iceberg's own may write to a branch of the table; ``environment`` is the one in which it is published.
    """

    declared: str
    table: OpenedTable
    location: VersionLocation
    upon: int | None
    base: Base | None
    rows_before: int
    layout: IcebergLayout
    described: Callable[[int], Published]
    errors: StagedErrors
    begun: Definition | None
    natively: bool = True
    environment: str | None = None


@dataclass(frozen=True)
class ExistingVersion:
    """A version that exists already: on the branch or in the staging table ``staged``, or as the older ``snapshot``.

    ``key`` is that of a withheld version.
    """

    publication: PublicationFacts
    stored: Callable[[], StoredRows]
    staged: StagedBranch | StagingTable | None = None
    snapshot: int | None = None
    key: str | None = None
