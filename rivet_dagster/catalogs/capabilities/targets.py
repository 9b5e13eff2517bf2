"""Capabilities of catalogs that are written to: tables with error tables, watermarks, and versions to decide about."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import ExistingTable, Provenance, Published, Statistics, StoredRows, Version
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.model.write_strategy import WriteStrategy

PlanType = type[WritePlan]

NO_OPTIONS: Mapping[str, Any] = {}


class HasTargets(Catalog):
    """publishes tables, each version all or nothing."""

    write_plans: ClassVar[frozenset[PlanType]]
    """The kinds of write plan that it can carry out."""
    keeps_versions: ClassVar[bool] = True
    """Whether a version stays readable for a while after another one has been published."""

    @classmethod
    def refuses_write(cls, options: Mapping[str, Any], strategy: WriteStrategy) -> str | None:
        """Return why a catalog with these ``options`` cannot do a write strategy; None if it can.

        It is the end of a sentence that begins with the catalog, as in ``cannot add columns``.
        """
        return None

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> TableTransaction:
        """Begin a new version of ``table``; ``options`` are those of its storage.

        ``session`` computes the rows to be written and runs the catalog's own queries; it must stay open until the
        transaction ends. A caller that has the rows in this process needs no session. Raises RVT-402, RVT-404.
        """

    @abstractmethod
    def current(self, table: str) -> Published | None:
        """Return the published version that readers see; None if there is none."""

    @abstractmethod
    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that ``identity`` published, even if later ones followed; None if none is known.

        It stays known for longer than anybody retries a run. The version itself may have expired by then, in which case
        ``read`` raises, and the columns are those of a later version.
        """

    @abstractmethod
    def read(self, published: Published) -> Relation:
        """Return the relation of exactly that version. Raises RVT-401 if it has expired."""

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics that storage has of that version without reading its rows. Raises RVT-401."""
        return published.statistics

    def examine_table(self, table: str) -> Iterable[Finding]:
        """Return findings about what makes the runs of a published table slower from one to the next.

        They are made of what storage says about the table, not of its rows. Raises RVT-403.
        """
        return ()

    @abstractmethod
    def evict(self, published: Published) -> None:
        """Remove the table, or all of its rows, which are no longer needed, if readers still see that version."""


class Adopts(HasTargets):
    """takes over tables that somebody else has made."""

    @abstractmethod
    def existing(self, table: str, partitioned_by: Schema = ()) -> ExistingTable | None:
        """Return what ``adopt`` would take over; None if there is no table, or it is published from here already.

        ``partitioned_by`` are the columns by which the table's joint is partitioned, with their types where these are
        known. Raises RVT-404 for what cannot be taken over, RVT-403, RVT-422.
        """

    @abstractmethod
    def adopt(self, table: str, partitioned_by: Schema = ()) -> Published | None:
        """Return the current version of a table, which is its present state if nothing was published from here.

        Readers find the same rows before, meanwhile and after; properties and rights stay. None if there is no such
        table. Raises RVT-402, RVT-404, RVT-405 if others write to it meanwhile, RVT-422.
        """

    @abstractmethod
    def give_up(self, table: str) -> bool:
        """Make a table that was taken over somebody else's again; return whether it was. Raises RVT-404.

        A catalog that keeps older versions refuses it (RVT-404) once another version has been published.
        """


class ChecksBatches(HasTargets):
    """tells before a run whether a table takes the columns of a batch."""

    @abstractmethod
    def check_batch(self, table: str, plan: WritePlan, columns: Schema, is_partitioned: bool) -> None:
        """Raise what writing a batch of these ``columns`` by ``plan`` would raise, as the table is now.

        All types are known. With ``is_partitioned`` a run writes some partitions of the table. Nothing is changed.
        Raises RVT-403, RVT-404, RVT-422, RVT-514.
        """


class ErrorTransaction(TableTransaction):
    """A transaction that can publish a table of errors with the version, in the same atomic step."""

    @abstractmethod
    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Add the rows of ``frame`` to the error table of the version, readable as ``table``; None adds no row.

        To be called after ``write``, or not at all for a version without an error table. Several calls, of one name,
        make one table. ``frame`` is one of the session that the transaction was begun with and has ERROR_COLUMNS; None
        needs no engine. Return the rows of all calls so far, readable until the transaction ends. Raises RVT-404 if
        something else is at the path of ``table``, be it here or in ``commit``.
        """

    def share_errors(self, table: str) -> StoredRows | None:
        """Make all errors of the version that this one builds upon a part of its error table, without writing them.

        To be called before ``write_errors``. Return them as this does; None if there are none, or if they have to be
        written again, and nothing has been done. By default they always have to be.
        """
        return None


class HasErrorTables(HasTargets):
    """publishes a table of row errors with each version of a table.

    Readers open it like any other table, by its own name: they see the errors of the version that is published, and no
    table if that has none. A version keeps its errors: when it is published again, so are they.
    """

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> ErrorTransaction:
        """Begin a new version of ``table``, which may have an error table."""

    @abstractmethod
    def errors_of(self, published: Published) -> Relation | None:
        """Return the relation of the errors of exactly that version; None if it was published without an error table.

        Raises RVT-401 if the version has expired.
        """

    def has_errors(self, published: Published) -> bool | None:
        """Return whether that version has errors; None, as by default, if only an engine can tell.

        Raises what ``errors_of`` does.
        """
        return None


class HasWatermarks(HasTargets):
    """stores a watermark that a person sets."""

    @abstractmethod
    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum of a column of that version, read without an engine; None if all values are NULL.

        NaN counts as the greatest value. A TIMESTAMP is returned with a time zone, a TIMESTAMP_NTZ without. Raises
        RVT-401, RVT-407.
        """

    @abstractmethod
    def watermark_override(self, published: Published) -> Override | None:
        """Return the value that a person set in place of the watermark of that version; None if nobody has."""

    @abstractmethod
    def override_watermark(self, published: Published, override: Override) -> None:
        """Set the watermark until another version is published. Raises RVT-404, and RVT-405 if one has been already."""


class VersionTransaction(TableTransaction):
    """A transaction whose version may also be withheld, for a person to publish or remove."""

    def withhold(self, identity: str = "", made: Provenance | None = None) -> None:
        """Withhold the version: it stays, complete but not published, and no sweep removes it.

        When it is published later, ``published_by`` finds it both under the identity that publishes it and under
        ``identity``, the run that made it. Raises RVT-404, RVT-406.
        """
        self._withhold(identity, made)
        self._ended = True

    @abstractmethod
    def _withhold(self, identity: str, made: Provenance | None) -> None:
        """Do what ``withhold`` promises."""


class HasVersions(HasTargets):
    """lists the versions of a table and publishes any of them."""

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> VersionTransaction:
        """Begin a new version of ``table``, which can also be withheld."""

    @abstractmethod
    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the published versions that still exist, the newest first, then the withheld ones."""

    @abstractmethod
    def take_up(self, table: str, version: str) -> VersionTransaction:
        """Reopen a withheld version, to be published after the current one or removed. Raises RVT-408."""

    @abstractmethod
    def restage(self, table: str, version: str) -> VersionTransaction:
        """Begin a new version with the rows of an older published one. Raises RVT-402, RVT-404, RVT-408."""
